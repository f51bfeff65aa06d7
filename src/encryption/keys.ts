import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { EncryptionKeyError } from '../errors.ts';
import { parseKeys, type Key, type KeySource } from '../key-list.ts';
import { messageOf } from '../message-of.ts';

/** A key of AES-256 and the id that payloads name it by. */
export type EncryptionKey = Key;

/**
 * Gives the keys that payloads are encrypted with. Implement it to take them from a KMS: called for each payload, so
 * answer from memory, without a promise where you can. For envelope encryption let the id name a wrapped data key, and
 * unwrap it in `find`.
 */
export interface EncryptionKeys {
  /** The key that encrypts from now on. */
  newest(): EncryptionKey | Promise<EncryptionKey>;
  /** The key that this id names; `undefined` if there is none. */
  find(id: string): EncryptionKey | undefined | Promise<EncryptionKey | undefined>;
}

/** Where the keys of payloads come from. */
export type EncryptionKeySource =
  | KeySource
  /** An ES module whose default export is {@link EncryptionKeys}, or a function that returns them or a promise of them. */
  | { readonly keysModule: string }
  | EncryptionKeys;

/** @throws {@link EncryptionKeyError} on keys that are given as text and are malformed; what is read is read when used. */
export function encryptionKeysOf(source: EncryptionKeySource): EncryptionKeys {
  if (isEncryptionKeys(source)) return source;
  if ('keysFile' in source) return new KeysOfFile(source.keysFile);
  if ('keysModule' in source) return new KeysOfModule(source.keysModule);
  return new KeyList(parsed(source.keys));
}

class KeyList implements EncryptionKeys {
  readonly keys: readonly [EncryptionKey, ...EncryptionKey[]];

  constructor(keys: KeyList['keys']) {
    this.keys = keys;
  }

  newest(): EncryptionKey {
    return this.keys[0];
  }

  find(id: string): EncryptionKey | undefined {
    return this.keys.find((key) => key.id === id);
  }
}

/** A file is looked at this often, milliseconds; at once when a key is missing. */
const LOOK_EVERY_MS = 1_000;

/** A file that cannot be read later on does not stop a process: it goes on with the keys that it has read, and warns. */
class KeysOfFile implements EncryptionKeys {
  private readonly path: string;
  private list: KeyList | undefined;
  private version = '';
  private lookedAt = 0;

  constructor(path: string) {
    this.path = path;
  }

  newest(): EncryptionKey {
    return this.look(LOOK_EVERY_MS).newest();
  }

  find(id: string): EncryptionKey | undefined {
    return this.look(LOOK_EVERY_MS).find(id) ?? this.look(0).find(id);
  }

  private look(everyMs: number): KeyList {
    if (this.list !== undefined && Date.now() - this.lookedAt < everyMs) return this.list;
    this.lookedAt = Date.now();
    try {
      const { ino, size, mtimeMs } = statSync(this.path);
      const version = [ino, size, mtimeMs].join(' ');
      if (this.list === undefined || version !== this.version) {
        this.list = new KeyList(parsed(readFileSync(this.path, 'utf8')));
        this.version = version;
      }
      return this.list;
    } catch (error) {
      const problem = error instanceof EncryptionKeyError ? error : unreadable(this.path, error);
      if (this.list === undefined) throw problem;
      if (this.version !== problem.message)
        process.emitWarning(`${problem.message}; the keys read before stay in use`);
      this.version = problem.message;
      return this.list;
    }
  }
}

class KeysOfModule implements EncryptionKeys {
  private readonly path: string;
  private loaded: Promise<EncryptionKeys> | undefined;

  constructor(path: string) {
    this.path = path;
  }

  async newest(): Promise<EncryptionKey> {
    return await (await this.load()).newest();
  }

  async find(id: string): Promise<EncryptionKey | undefined> {
    return await (await this.load()).find(id);
  }

  private load(): Promise<EncryptionKeys> {
    this.loaded ??= keysOfModule(this.path).catch((error: unknown) => {
      this.loaded = undefined;
      throw new EncryptionKeyError(`the module of encryption keys ${this.path}: ${messageOf(error)}`);
    });
    return this.loaded;
  }
}

async function keysOfModule(path: string): Promise<EncryptionKeys> {
  const { default: given } = (await import(pathToFileURL(resolve(path)).href)) as { default?: unknown };
  const keys: unknown = typeof given === 'function' ? await given() : given;
  if (isEncryptionKeys(keys)) return keys;
  throw new Error('its default export must have, or return something with, the functions newest and find');
}

function isEncryptionKeys(value: unknown): value is EncryptionKeys {
  if (typeof value !== 'object' || value === null || !('newest' in value) || !('find' in value)) return false;
  return typeof value.newest === 'function' && typeof value.find === 'function';
}

function parsed(text: string): [EncryptionKey, ...EncryptionKey[]] {
  try {
    return parseKeys(text, 'encryption');
  } catch (error) {
    throw new EncryptionKeyError(messageOf(error));
  }
}

function unreadable(path: string, error: unknown): EncryptionKeyError {
  const why = error instanceof Error && 'code' in error ? String(error.code) : messageOf(error);
  return new EncryptionKeyError(`the file of encryption keys cannot be read (${why}): ${path}`);
}
