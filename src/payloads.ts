import type { Client } from '@temporalio/client';
import type { Payload } from '@temporalio/common';

/** Decodes payloads that the SDK hands out raw; what a stranger sent and cannot be decoded is `undefined`. */
export async function decodePayloads(
  client: Client,
  payloads: readonly Payload[] | null | undefined,
): Promise<unknown[]> {
  const { payloadConverter, payloadCodecs } = client.options.loadedDataConverter;
  let decoded = [...(payloads ?? [])];
  for (const codec of payloadCodecs.toReversed()) decoded = await codec.decode(decoded);
  return decoded.map((payload): unknown => {
    try {
      return payloadConverter.fromPayload(payload);
    } catch {
      return undefined;
    }
  });
}
