import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { encryptionKeysOf, type EncryptionKeys } from '../../src/encryption/keys.ts';
import { EncryptionKeyError } from '../../src/errors.ts';
import { newKey } from '../../src/key-list.ts';

const [first, second] = [newKey('first'), newKey('second')];
let folder: string;
let keysFile: string;
let keys: EncryptionKeys;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  folder = await mkdtemp(join(tmpdir(), 'hookladder-keys-'));
  keysFile = join(folder, 'keys');
  keys = encryptionKeysOf({ keysFile });
});
afterEach(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  await rm(folder, { recursive: true });
});

/** As a rotation should: never half written. */
async function write(text: string): Promise<void> {
  await writeFile(`${keysFile}.new`, text);
  await rename(`${keysFile}.new`, keysFile);
}

const later = () => vi.setSystemTime(Date.now() + 1_000);

test('a file is read anew a second after it was changed, without a restart', async () => {
  await write(first);
  expect(await keys.newest()).toMatchObject({ id: 'first' });
  await write(`${second}\n${first}\n`);
  later();
  expect(await keys.newest()).toMatchObject({ id: 'second' });
  expect(await keys.find('first')).toMatchObject({ id: 'first' });
});

test('a key that is missing is looked for at once', async () => {
  await write(first);
  expect(await keys.find('second')).toBeUndefined();
  await write(`${first},${second}`);
  expect(await keys.find('second')).toMatchObject({ id: 'second' });
});

test('a file that cannot be read from the beginning is an error that names it', async () => {
  expect(() => keys.newest()).toThrow(EncryptionKeyError);
  expect(() => keys.newest()).toThrow(/cannot be read \(ENOENT\): .*keys$/);
});

test.each([
  ['is gone', undefined, /cannot be read \(ENOENT\)/],
  ['is malformed', 'first:c2hvcnQ=', /must be id:base64/],
])('a file that later %s leaves the keys that were read, and one warning', async (_, text, warning) => {
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  await write(first);
  await keys.newest();
  if (text === undefined) await rm(keysFile);
  else await write(text);
  for (let look = 0; look < 3; look++) {
    later();
    expect(await keys.newest()).toMatchObject({ id: 'first' });
  }
  expect(warned.mock.calls).toEqual([[expect.stringMatching(warning)]]);
  await write(second);
  later();
  expect(await keys.newest()).toMatchObject({ id: 'second' });
});

test.each([
  ['has no such exports', 'export default { newest: 1 }', /functions newest and find/],
  ['has no default export', 'export const keys = {}', /functions newest and find/],
  ['throws', "throw new Error('no access to the KMS')", /no access to the KMS/],
])('a module that %s is an error that names it', async (what, code, says) => {
  const keysModule = join(folder, `${what.replaceAll(' ', '-')}.mjs`);
  await writeFile(keysModule, code);
  const refused = Promise.resolve().then(() => encryptionKeysOf({ keysModule }).newest());
  await expect(refused).rejects.toThrow(says);
  await expect(refused).rejects.toThrow(keysModule);
});
