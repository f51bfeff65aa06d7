import { createCipheriv, createDecipheriv, createSecretKey, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { SealedSecret } from './policy/gate.ts';

/** A secret or its key could not be read. Its message never carries either. */
export class SecretKeyError extends Error {
  readonly code = 'SECRET_KEY';
  constructor(message: string) {
    super(message);
    this.name = 'SecretKeyError';
  }
}

/** Where the keys that seal merchants' secrets come from. */
export type KeySource =
  /** `id:base64` pairs, separated by commas or lines; each key has 32 bytes; the first one seals. */
  | { readonly keys: string }
  /** A file with such pairs. Read anew at each use, so that a rotation needs no restart. */
  | { readonly keysFile: string };

const PREFIX = 'sealed.v1';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Seals what is secret of merchants with AES-256-GCM, so that it is never in clear in Temporal's store or UI. What it
 * belongs to is bound in: a sealed signing secret opens for its own merchant id only.
 */
export class SecretBox {
  private readonly source: KeySource;

  constructor(source: KeySource) {
    this.source = source;
  }

  /** @throws {@link SecretKeyError} if no key can be read. */
  async seal(boundTo: string, secret: string): Promise<SealedSecret> {
    const [first] = await this.keys();
    if (first === undefined) throw new SecretKeyError('there is no key to seal secrets with');
    const [id, key] = first;
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(boundTo));
    const sealed = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()]);
    const packed = Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url');
    return [PREFIX, id, packed].join(':') as SealedSecret;
  }

  /** @throws {@link SecretKeyError} if the key is not at hand or the seal is broken. */
  async open(boundTo: string, sealed: SealedSecret): Promise<string> {
    const [prefix, id, packed] = sealed.split(':');
    if (prefix !== PREFIX || id === undefined || packed === undefined) {
      throw new SecretKeyError(
        'the merchant has a secret that is not sealed: set its endpoint anew through the client',
      );
    }
    const key = new Map(await this.keys()).get(id);
    if (key === undefined)
      throw new SecretKeyError(`the key "${id}" that sealed the merchant's secret is not configured`);
    const bytes = Buffer.from(packed, 'base64url');
    try {
      const decipher = createDecipheriv('aes-256-gcm', createSecretKey(key), bytes.subarray(0, IV_BYTES))
        .setAAD(Buffer.from(boundTo))
        .setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
      return (
        decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
      );
    } catch {
      throw new SecretKeyError(`the merchant's secret does not open with the key "${id}"`);
    }
  }

  private async keys(): Promise<[id: string, key: Buffer][]> {
    if ('keys' in this.source) return parseKeys(this.source.keys);
    const path = this.source.keysFile;
    const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      throw new SecretKeyError(`the file of secret keys cannot be read (${error.code}): ${path}`);
    });
    return parseKeys(text);
  }
}

/**
 * Reads `id:base64` pairs, separated by commas or lines.
 * @throws {@link SecretKeyError} on an empty list, a malformed pair or a key that has not 32 bytes.
 */
export function parseKeys(text: string): [id: string, key: Buffer][] {
  const pairs = text
    .split(/[,\n]/)
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (pairs.length === 0)
    throw new SecretKeyError('the list of secret keys is empty: make one with `openssl rand -base64 32`');
  return pairs.map((pair, index) => {
    const match = /^([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/_-]+=*)$/.exec(pair);
    const key = Buffer.from(match?.[2] ?? '', 'base64');
    if (match?.[1] === undefined || key.length !== 32) {
      throw new SecretKeyError(
        `secret key ${index + 1} must be id:base64 of 32 bytes, such as k1:$(openssl rand -base64 32)`,
      );
    }
    return [match[1], key];
  });
}

/** A new random key as an `id:base64` pair. */
export function newKey(id: string): string {
  return `${id}:${randomBytes(32).toString('base64')}`;
}
