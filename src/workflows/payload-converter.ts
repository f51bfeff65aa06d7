import { defaultPayloadConverter, type Payload, type PayloadConverter } from '@temporalio/common';

/**
 * Takes any payload that a stranger may have started or signalled a workflow with. One that cannot be
 * decoded becomes an {@link Undecodable}, which the input check refuses; thrown here, it would block the
 * workflow for good.
 */
export const payloadConverter: PayloadConverter = {
  toPayload: (value) => defaultPayloadConverter.toPayload(value),
  fromPayload<T>(payload: Payload): T {
    try {
      return defaultPayloadConverter.fromPayload<T>(payload);
    } catch {
      return new Undecodable(payload) as T;
    }
  },
};

/** Stands for a payload that cannot be decoded. */
export class Undecodable {
  /** How the payload says it is encoded, in words. */
  readonly encoding: string;
  constructor({ metadata }: Payload) {
    const encoding = new TextDecoder().decode(metadata?.['encoding'] ?? undefined).slice(0, 100);
    this.encoding = encoding === '' ? 'no encoding' : `the encoding "${encoding}"`;
  }
}
