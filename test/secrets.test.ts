import { expect, test } from 'vitest';
import { newKey, parseKeys } from '../src/key-list.ts';
import { SecretBox, SecretKeyError } from '../src/secrets.ts';
import type { SealedSecret } from '../src/policy/gate.ts';

const oldKey = newKey('old');
const newerKey = newKey('new');

test('a sealed secret opens for its own merchant only', async () => {
  const box = new SecretBox({ keys: oldKey });
  const sealed = await box.seal('m1', 'секрет of twenty bytes');
  expect(sealed).not.toContain('twenty');
  expect(await box.open('m1', sealed)).toBe('секрет of twenty bytes');
  await expect(box.open('m2', sealed)).rejects.toBeInstanceOf(SecretKeyError);
});

test('the first key seals and all keys open, so that keys can be rotated', async () => {
  const sealed = await new SecretBox({ keys: oldKey }).seal('m1', 'a secret of 20 bytes');
  const rotated = new SecretBox({ keys: `${newerKey}\n${oldKey}` });
  expect(await rotated.open('m1', sealed)).toBe('a secret of 20 bytes');
  expect((await rotated.seal('m1', 'x')).split(':')[1]).toBe('new');
  await expect(new SecretBox({ keys: newerKey }).open('m1', sealed)).rejects.toThrow(
    /key "old" .* is not configured/,
  );
});

test.each(['', 'plain text', 'sealed.v1:old', 'sealed.v1:old:AAAA', 'sealed.v1:old:'])(
  'R6 "%s" is no sealed secret',
  async (text) => {
    await expect(new SecretBox({ keys: oldKey }).open('m1', text as SealedSecret)).rejects.toBeInstanceOf(
      SecretKeyError,
    );
  },
);

test.each(['', ' , \n', 'noid', 'k1:', 'k1:c2hvcnQ=', `k 1:${'A'.repeat(43)}=`])(
  'the list of keys "%s" is refused',
  async (text) => {
    expect(() => parseKeys(text, 'secret')).toThrow();
    await expect(new SecretBox({ keys: text }).seal('m1', 'x')).rejects.toBeInstanceOf(SecretKeyError);
  },
);

test('a key id that is there twice is refused: the second would never open what the first has sealed', () => {
  expect(() => parseKeys(`${newKey('a')},${newKey('b')},${newKey('a')}`, 'secret')).toThrow(
    /"a" is there twice/,
  );
});
