import { expect, test } from 'vitest';

import { Problem } from '../../src/api/problem';
import { Edit, type Field } from '../../src/ui/edit.svelte';

interface Thing {
  etag?: string;
  size: number;
  colour: string;
}

const fields: Field<Thing>[] = [
  ['size', (t) => String(t.size)],
  ['colour', (t) => t.colour],
];
const overtaken = new Problem({ kind: 'CONFLICT', status: 412, detail: 'it was changed since you read it' });

/** An object that others change, and a form that writes it by its version. */
function setup(now: Thing) {
  const node = { now };
  const edit = new Edit<Thing>(async () => node.now);
  const write = (): Promise<Thing> =>
    edit.write(async () => {
      if (edit.headers['If-Match'] !== `"${node.now.etag}"`) throw overtaken;
      return (node.now = { ...node.now, etag: `${node.now.etag}+` });
    });
  return { node, edit, write };
}

test('what others have changed meanwhile is not replaced, but shown beside what was written', async () => {
  const { node, edit, write } = setup({ etag: 'a', size: 1, colour: 'red' });
  edit.begin(node.now);
  node.now = { etag: 'b', size: 2, colour: 'red' };
  await expect(write()).rejects.toBe(overtaken);
  expect(edit.differences(fields, { size: '9' })).toEqual([{ name: 'size', was: '1', now: '2', mine: '9' }]);
  expect(edit.differences(fields, { colour: ' blue ' })).toEqual([
    { name: 'size', was: '1', now: '2', mine: '' },
    { name: 'colour', was: 'red', now: 'red', mine: 'blue' },
  ]);
  edit.rebase();
  expect(edit.differences(fields, { size: '9' })).toEqual([]);
  expect((await write()).etag).toBe('b+');
});

test('what else is refused is no other version, and what has none is written as it is', async () => {
  const edit = new Edit<Thing>(async () => expect.fail('it was read'));
  edit.begin({ size: 1, colour: 'red' });
  expect(edit.headers).toEqual({});
  await expect(edit.write(() => Promise.reject(new Problem({ kind: 'INVALID', status: 400 })))).rejects.toMatchObject({ kind: 'INVALID' });
  expect(edit.theirs).toBeUndefined();
});
