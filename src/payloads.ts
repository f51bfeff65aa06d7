import type { Client } from '@temporalio/client';
import type { Payload, ProtoFailure } from '@temporalio/common';

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

/** Message and details of a failure that the SDK hands out raw; its message is in a payload, as its details are. */
export async function readFailure(
  client: Client,
  { message, encodedAttributes, applicationFailureInfo }: ProtoFailure,
): Promise<{ readonly message: string; readonly details: readonly unknown[] }> {
  const [attributes] = await decodePayloads(client, encodedAttributes ? [encodedAttributes] : []);
  const encoded =
    typeof attributes === 'object' && attributes !== null && 'message' in attributes
      ? attributes.message
      : undefined;
  return {
    message: typeof encoded === 'string' ? encoded : (message ?? 'unknown'),
    details: await decodePayloads(client, applicationFailureInfo?.details?.payloads),
  };
}
