import type { Attachment } from 'svelte/attachments';

/** Makes a box focusable, with a name, while its content is wider or higher than it, so that keys scroll it. */
export const scrolls: Attachment<HTMLElement> = (box) => {
  const look = (): void => {
    if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) {
      box.tabIndex = 0;
      if (box.tagName !== 'UL') box.role = 'group'; // a list keeps its role
      box.ariaLabel = 'more than is in sight';
    } else for (const name of ['tabindex', 'role', 'aria-label']) box.removeAttribute(name);
  };
  const sizes = new ResizeObserver(look);
  sizes.observe(box);
  for (const child of box.children) sizes.observe(child);
  return () => sizes.disconnect();
};
