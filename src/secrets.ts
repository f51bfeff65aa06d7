import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { parseKeys, type Key, type KeySource } from './key-list.ts';
import type { SealedSecret } from './policy/gate.ts';
import { messageOf } from './message-of.ts';

/** A secret or its key could not be read. Its message never carries either. */
export class SecretKeyError extends Error {
  readonly code = 'SECRET_KEY';
  constructor(message: string) {
    super(message);
    this.name = 'SecretKeyError';
  }
}

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
    const [{ id, key }] = await this.keys();
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
    const key = (await this.keys()).find((each) => each.id === id)?.key;
    if (key === undefined)
      throw new SecretKeyError(`the key "${id}" that sealed the merchant's secret is not configured`);
    const bytes = Buffer.from(packed, 'base64url');
    try {
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES))
        .setAAD(Buffer.from(boundTo))
        .setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
      return (
        decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
      );
    } catch {
      throw new SecretKeyError(`the merchant's secret does not open with the key "${id}"`);
    }
  }

  /** A file is read at each use. */
  private async keys(): Promise<[first: Key, ...older: Key[]]> {
    const text = 'keys' in this.source ? this.source.keys : await this.readFile(this.source.keysFile);
    try {
      return parseKeys(text, 'secret');
    } catch (error) {
      throw new SecretKeyError(messageOf(error));
    }
  }

  private async readFile(path: string): Promise<string> {
    return await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      throw new SecretKeyError(`the file of secret keys cannot be read (${error.code}): ${path}`);
    });
  }
}
