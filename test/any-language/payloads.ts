import type { Payload } from '@temporalio/common';

/** A payload made by hand, as an SDK of another language or another codec might send it. */
export function payload(encoding: string | undefined, data: string): Payload {
  const metadata = encoding === undefined ? {} : { encoding: Buffer.from(encoding) };
  return { metadata, data: Buffer.from(data) };
}

/** A value as every SDK encodes it by default. */
export function json(value: unknown): Payload {
  return payload('json/plain', JSON.stringify(value));
}

/** Arguments that no message of ours has: absent, of another shape, of another encoding, not decodable. */
export const malformedArguments: readonly (readonly Payload[])[] = [
  [],
  [json(null)],
  [json('text')],
  [json(7)],
  [json([])],
  [json({})],
  [json({ call: '1', version: {} })],
  [json({ holds: [{}], left: [1] })],
  [json({ holds: 'all', left: null })],
  [json({ url: 'not a url', secret: 'secret' })],
  [json({ url: 'https://example.com/', secret: '' })],
  [payload('json/plain', '{"holds":')],
  [payload('json/plain', '')],
  [payload('binary/plain', 'bytes')],
  [payload('binary/null', '')],
  [payload('json/protobuf', '{}')],
  [payload('binary/encrypted', 'sealed')],
  [payload(undefined, 'anything')],
];
