import { createSecretKey, randomBytes } from 'node:crypto';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ENCODING, EncryptionCodec } from '../../src/encryption/codec.ts';
import { codecOf, encryptionOf } from '../../src/encryption/encryption.ts';
import type { EncryptionKey } from '../../src/encryption/keys.ts';
import { EncryptionKeyError, EncryptionNotConfigured } from '../../src/errors.ts';
import { newKey } from '../../src/key-list.ts';

const [older, newer] = [newKey('older'), newKey('newer')];
const codec = codecOf({ keys: older });

const bytes = fc.uint8Array({ maxLength: 2_000 });
const payload = fc.record<Payload>({
  metadata: fc.dictionary(
    fc.string({ maxLength: 20 }).filter((name) => name !== '__proto__'),
    bytes,
  ),
  data: bytes,
});

/** Bytes of whatever kind as hex, to be compared. */
function plain({ metadata, data }: Payload) {
  const names = Object.entries(metadata ?? {}).map(([name, value]) => [
    name,
    Buffer.from(value).toString('hex'),
  ]);
  return { metadata: Object.fromEntries(names) as object, data: Buffer.from(data ?? []).toString('hex') };
}

function contains(haystack: Payload, needle: Uint8Array): boolean {
  const parts = [haystack.data ?? [], ...Object.values(haystack.metadata ?? {})];
  return parts.some((part) => Buffer.from(part).includes(Buffer.from(needle)));
}

describe('the codec', () => {
  test('gives back every payload that it has encrypted, in order', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(payload, { maxLength: 5 }), async (payloads) => {
        const encoded = await codec.encode(payloads);
        expect((await codec.decode(encoded)).map(plain)).toEqual(payloads.map(plain));
      }),
    );
  });

  test('also what looks as if it were encrypted already', async () => {
    const once = await codec.encode([{ data: Buffer.from('a') }]);
    expect((await codec.decode(await codec.encode(once))).map(plain)).toEqual(once.map(plain));
  });

  test('shows neither data nor metadata, only its encoding and the id of the key', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 8, maxLength: 200 }), async (needle) => {
        const metadata = { encoding: Buffer.from('json/plain'), note: needle };
        const [encoded] = await codec.encode([{ metadata, data: needle }]);
        expect(contains(encoded ?? {}, needle)).toBe(false);
        const shown = Object.entries(encoded?.metadata ?? {}).map(([name, value]) => [
          name,
          value.toString(),
        ]);
        expect(Object.fromEntries(shown)).toEqual({ encoding: ENCODING, 'encryption-key-id': 'older' });
      }),
    );
  });

  test('makes another text of the same payload each time', async () => {
    const same = { data: Buffer.from('the same') };
    const encoded = await codec.encode(Array.from({ length: 100 }, () => same));
    expect(new Set(encoded.map((each) => Buffer.from(each.data ?? []).toString('hex'))).size).toBe(100);
  });

  test('refuses what was altered, whichever bit', async () => {
    const [encoded] = await codec.encode([{ data: Buffer.from('{"status":"paid"}') }]);
    const data = Buffer.from(encoded?.data ?? []);
    await fc.assert(
      fc.asyncProperty(fc.nat(data.length * 8 - 1), async (bit) => {
        const altered = Buffer.from(data);
        altered[bit >> 3] = (altered[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        const refused = codec.decode([{ ...encoded, data: altered }]);
        await expect(refused).rejects.toBeInstanceOf(EncryptionKeyError);
      }),
    );
    for (const length of [28, data.length - 1]) {
      const refused = codec.decode([{ ...encoded, data: data.subarray(0, length) }]);
      await expect(refused).rejects.toThrow('was altered');
    }
  });

  test('refuses another key under the same id, and says which id', async () => {
    const encoded = await codec.encode([{ data: Buffer.from('x') }]);
    const refused = codecOf({ keys: newKey('older') }).decode(encoded);
    await expect(refused).rejects.toThrow(/does not open with the key "older"/);
  });

  test('R6 without the key it names the id and the remedy', async () => {
    const encoded = await codec.encode([{ data: Buffer.from('x') }]);
    for (const without of [codecOf({ keys: newer }), codecOf('off')]) {
      const refused = without.decode(encoded);
      await expect(refused).rejects.toMatchObject({
        code: 'ENCRYPTION_KEY',
        message: expect.stringMatching(
          /key "older" .* is not configured: add it to HOOKLADDER_ENCRYPTION_KEYS/,
        ),
      });
    }
  });

  test('the first key encrypts and all decrypt, so that keys can be rotated', async () => {
    const encoded = await codec.encode([{ data: Buffer.from('x') }]);
    const rotated = codecOf({ keys: `${newer}\n${older}` });
    expect((await rotated.decode(encoded))[0]?.data?.toString()).toBe('x');
    const [again] = await rotated.encode([{ data: Buffer.from('x') }]);
    expect(again?.metadata?.['encryption-key-id']?.toString()).toBe('newer');
  });

  test('passes on what is not encrypted, as operators and other languages send it', async () => {
    const sent = [
      defaultPayloadConverter.toPayload({ by: 'ann' }),
      {},
      { metadata: {}, data: Buffer.from('x') },
    ];
    expect(await codec.decode(sent)).toEqual(sent);
    expect(await codec.decode([])).toEqual([]);
  });

  test.each<[what: string, payload: Payload]>([
    ['no key id', { metadata: { encoding: Buffer.from(ENCODING) }, data: randomBytes(40) }],
    [
      'too little data',
      {
        metadata: { encoding: Buffer.from(ENCODING), 'encryption-key-id': Buffer.from('older') },
        data: randomBytes(27),
      },
    ],
  ])('R71 passes on what cannot be its own (%s), so that the checks refuse it', async (_, sent) => {
    expect(await codec.decode([sent])).toEqual([sent]);
  });

  test('off encodes in clear; with keys it reads what was encrypted', async () => {
    const clear = [{ data: Buffer.from('x') }];
    expect(await codecOf('off').encode(clear)).toEqual(clear);
    const wayBack = codecOf({ decryptOnly: { keys: older } });
    expect(await wayBack.encode(clear)).toEqual(clear);
    expect((await wayBack.decode(await codec.encode(clear)))[0]?.data?.toString()).toBe('x');
  });

  test('takes keys from a KMS, and goes on with the last key when that is away', async () => {
    const key: EncryptionKey = { id: 'wrapped:'.padEnd(200, 'x'), key: createSecretKey(randomBytes(32)) };
    let isAway = false;
    const kms = new EncryptionCodec(
      {
        newest: () => (isAway ? Promise.reject(new Error('the KMS is away')) : Promise.resolve(key)),
        find: (id) => Promise.resolve(id === key.id ? key : undefined),
      },
      true,
    );
    isAway = true;
    await expect(kms.encode([{}])).rejects.toThrow('the KMS is away');
    isAway = false;
    await kms.encode([{}]);
    isAway = true;
    const encoded = await kms.encode([{ data: Buffer.from('x') }]);
    expect((await kms.decode(encoded))[0]?.data?.toString()).toBe('x');
  });
});

test('the environment must say how to encrypt', () => {
  expect(() => encryptionOf({})).toThrow(EncryptionNotConfigured);
  expect(encryptionOf({ HOOKLADDER_ENCRYPTION: 'off' })).toBe('off');
  expect(() => encryptionOf({ HOOKLADDER_ENCRYPTION: 'OFF', HOOKLADDER_ENCRYPTION_KEYS: older })).toThrow(
    'must be on or off',
  );
});
