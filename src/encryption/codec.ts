import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';
import proto from '@temporalio/proto';
import { EncryptionKeyError } from '../errors.ts';
import type { EncryptionKey, EncryptionKeys } from './keys.ts';

const { Payload: PayloadMessage } = proto.temporal.api.common.v1;

/** How an encrypted payload says that it is one. */
export const ENCODING = 'binary/hookladder-aes-256-gcm';
const KEY_ID = 'encryption-key-id';
const IV_BYTES = 12;
const TAG_BYTES = 16;
const encodingBytes = Buffer.from(ENCODING);
const cipherOptions = { authTagLength: TAG_BYTES };

/**
 * Encrypts payloads with AES-256-GCM: data and metadata of the payload, as a protobuf message, behind a random
 * initialisation vector and before the tag. Decodes what any of its keys has encrypted; passes on what is not encrypted,
 * since operators and programs in other languages may send that.
 */
export class EncryptionCodec implements PayloadCodec {
  private readonly keys: EncryptionKeys | undefined;
  private readonly encrypts: boolean;
  private lastKey: EncryptionKey | undefined;

  /**
   * @param keys - without them whatever is encrypted cannot be decoded.
   * @param encrypts - false leaves what is encoded in clear.
   */
  constructor(keys: EncryptionKeys | undefined, encrypts: boolean) {
    this.keys = keys;
    this.encrypts = encrypts && keys !== undefined;
  }

  /** @throws {@link EncryptionKeyError} if there never was a key to encrypt with. */
  async encode(payloads: Payload[]): Promise<Payload[]> {
    if (!this.encrypts || payloads.length === 0) return payloads;
    const key = await this.newestKey();
    return payloads.map((payload) => encrypted(payload, key));
  }

  /** @throws {@link EncryptionKeyError} if a payload was encrypted with a key that is not at hand, or was altered. */
  async decode(payloads: Payload[]): Promise<Payload[]> {
    const decoded: Payload[] = [];
    for (const payload of payloads) {
      const id = keyIdOf(payload);
      decoded.push(id === undefined ? payload : decrypted(payload, await this.keyNamed(id)));
    }
    return decoded;
  }

  /** A worker that cannot encode even an error would end: one that had a key goes on with it. */
  private async newestKey(): Promise<EncryptionKey> {
    try {
      this.lastKey = (await this.keys?.newest()) ?? this.lastKey;
    } catch (error) {
      if (this.lastKey === undefined) throw error;
    }
    if (this.lastKey === undefined) throw new EncryptionKeyError('there is no key to encrypt payloads with');
    return this.lastKey;
  }

  private async keyNamed(id: string): Promise<EncryptionKey> {
    const key = await this.keys?.find(id);
    if (key !== undefined) return key;
    throw new EncryptionKeyError(
      `the key "${id}" that encrypted a payload is not configured: add it to HOOKLADDER_ENCRYPTION_KEYS_FILE`,
    );
  }
}

function encrypted(payload: Payload, { id, key }: EncryptionKey): Payload {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, iv, cipherOptions);
  const sealed = [iv, cipher.update(PayloadMessage.encode(payload).finish()), cipher.final()];
  return {
    metadata: { encoding: encodingBytes, [KEY_ID]: Buffer.from(id) },
    data: Buffer.concat([...sealed, cipher.getAuthTag()]),
  };
}

/** What claims to be encrypted but cannot have come from here is nobody's key: it is passed on, to be refused. */
function keyIdOf({ metadata, data }: Payload): string | undefined {
  const encoding = metadata?.['encoding'];
  if (encoding === undefined || encoding === null || !encodingBytes.equals(encoding)) return undefined;
  const id = metadata?.[KEY_ID];
  if (!id?.length || (data?.length ?? 0) < IV_BYTES + TAG_BYTES) return undefined;
  return Buffer.from(id).toString();
}

function decrypted({ data }: Payload, { id, key }: EncryptionKey): Payload {
  const bytes = Buffer.from(data ?? []);
  const end = bytes.length - TAG_BYTES;
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES), cipherOptions);
  decipher.setAuthTag(bytes.subarray(end));
  try {
    const message = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, end)), decipher.final()]);
    return PayloadMessage.decode(message);
  } catch {
    throw new EncryptionKeyError(
      `a payload does not open with the key "${id}": it was altered, or the key is not the one that had this id`,
    );
  }
}
