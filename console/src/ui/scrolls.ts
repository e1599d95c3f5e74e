import type { Attachment } from 'svelte/attachments';

/** Has a box be in the order of the focus, with a name, while its content is wider or higher than it: keys scroll it then. */
export const scrolls: Attachment<HTMLElement> = (box) => {
  const look = (): void => {
    if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) {
      box.tabIndex = 0;
      if (box.tagName !== 'UL') box.role = 'group'; // a list stays one
      box.ariaLabel = 'more than is in sight';
    } else for (const name of ['tabindex', 'role', 'aria-label']) box.removeAttribute(name);
  };
  const sizes = new ResizeObserver(look);
  sizes.observe(box);
  for (const child of box.children) sizes.observe(child);
  return () => sizes.disconnect();
};
