import type { DataConverter } from '@temporalio/common';
import { EncryptionNotConfigured } from '../errors.ts';
import { EncryptionCodec } from './codec.ts';
import { encryptionKeysOf, type EncryptionKeySource } from './keys.ts';

/** Whether, and with which keys, payloads are encrypted before they go to Temporal. */
export type Encryption =
  | EncryptionKeySource
  /** Nothing is encrypted, and what was encrypted can still be read: for the way back. */
  | { readonly decryptOnly: EncryptionKeySource }
  /** Nothing is encrypted: bodies, addresses and whatever else is in clear in Temporal's store. */
  | 'off';

/** @throws {@link EncryptionKeyError} on keys that are given as text and are malformed. */
export function codecOf(encryption: Encryption): EncryptionCodec {
  if (encryption === 'off') return new EncryptionCodec(undefined, false);
  if ('decryptOnly' in encryption) {
    return new EncryptionCodec(encryptionKeysOf(encryption.decryptOnly), false);
  }
  return new EncryptionCodec(encryptionKeysOf(encryption), true);
}

/**
 * The data converter for a Temporal client of your own that is to read, or start, what hookladder has in Temporal.
 * @throws {@link EncryptionKeyError} on keys that are given as text and are malformed.
 */
export function dataConverterOf(encryption: Encryption): DataConverter {
  return { payloadCodecs: [codecOf(encryption)] };
}

const SOURCES = {
  HOOKLADDER_ENCRYPTION_KEYS_FILE: (keysFile: string) => ({ keysFile }),
  HOOKLADDER_ENCRYPTION_KEYS: (keys: string) => ({ keys }),
  HOOKLADDER_ENCRYPTION_KEYS_MODULE: (keysModule: string) => ({ keysModule }),
} as const;

/**
 * Encryption as the environment sets it: one of `HOOKLADDER_ENCRYPTION_KEYS_FILE`, `HOOKLADDER_ENCRYPTION_KEYS` and
 * `HOOKLADDER_ENCRYPTION_KEYS_MODULE`, or `HOOKLADDER_ENCRYPTION=off`; with both, what was encrypted is read.
 * @throws {@link EncryptionNotConfigured} if it says neither, or more than one.
 */
export function encryptionOf(environment: NodeJS.ProcessEnv): Encryption {
  const mode = environment['HOOKLADDER_ENCRYPTION'] ?? '';
  if (mode !== '' && mode !== 'off' && mode !== 'on') {
    throw new EncryptionNotConfigured(`HOOKLADDER_ENCRYPTION must be on or off, not ${JSON.stringify(mode)}`);
  }
  const set = Object.entries(SOURCES).flatMap(([name, sourceOf]) => {
    const value = environment[name];
    return value ? [{ name, source: sourceOf(value) }] : [];
  });
  const [first, second] = set;
  if (first !== undefined && second !== undefined) {
    throw new EncryptionNotConfigured(`${first.name} and ${second.name} are both set: keep one of them`);
  }
  if (mode === 'off') return first === undefined ? 'off' : { decryptOnly: first.source };
  if (first !== undefined) return first.source;
  throw new EncryptionNotConfigured(
    'no key to encrypt payloads with: set HOOKLADDER_ENCRYPTION_KEYS_FILE to the keys that the workers have; for a new ' +
      'namespace only, make one with `hookladder keys new`, since a new key cannot read what exists; or set ' +
      'HOOKLADDER_ENCRYPTION=off, and bodies and addresses are in clear in Temporal',
  );
}
