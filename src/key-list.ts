import { createSecretKey, randomBytes, type KeyObject } from 'node:crypto';

/** A key of 32 bytes and the id that names it. */
export interface Key {
  /** 1 to 32 of `A-Za-z0-9_-`. */
  readonly id: string;
  readonly key: KeyObject;
}

/** Where keys come from. */
export type KeySource =
  /** `id:base64` pairs, separated by commas or lines; each key has 32 bytes; the first one is used for what is new. */
  | { readonly keys: string }
  /** A file with such pairs. A change of the file is noticed, so that a rotation needs no restart. */
  | { readonly keysFile: string };

/**
 * Reads `id:base64` pairs, separated by commas or lines. No error carries a key.
 * @param kind - what the keys are for, in the words of errors.
 * @throws Error on an empty list, a malformed pair, a key that has not 32 bytes, or an id that is there twice.
 */
export function parseKeys(text: string, kind: 'secret' | 'encryption'): [first: Key, ...older: Key[]] {
  const pairs = text
    .split(/[,\n]/)
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const [first, ...older] = pairs.map((pair, index): Key => {
    const match = /^([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/_-]+=*)$/.exec(pair);
    const bytes = Buffer.from(match?.[2] ?? '', 'base64');
    if (match?.[1] === undefined || bytes.length !== 32) {
      throw new Error(
        `${kind} key ${index + 1} must be id:base64 of 32 bytes, such as k1:$(openssl rand -base64 32)`,
      );
    }
    return { id: match[1], key: createSecretKey(bytes) };
  });
  if (first === undefined) {
    throw new Error(`the list of ${kind} keys is empty: make a key with \`hookladder keys new\``);
  }
  const ids = [first, ...older].map(({ id }) => id);
  const twice = ids.find((id, index) => ids.indexOf(id) < index);
  if (twice !== undefined) throw new Error(`the ${kind} key "${twice}" is there twice: keep one`);
  return [first, ...older];
}

/** A new random key as an `id:base64` pair. */
export function newKey(id: string): string {
  return `${id}:${randomBytes(32).toString('base64')}`;
}

/** The keys that seal secrets, as the environment names them. */
export function keysFromEnvironment(): KeySource | undefined {
  const { HOOKLADDER_SECRET_KEYS: keys, HOOKLADDER_SECRET_KEYS_FILE: keysFile } = process.env;
  if (keysFile) return { keysFile };
  return keys ? { keys } : undefined;
}
