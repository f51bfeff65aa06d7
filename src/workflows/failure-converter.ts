import { ApplicationFailure, DefaultFailureConverter } from '@temporalio/common';

/**
 * Puts messages and stack traces of failures into a payload, which the codec encrypts: a message may hold an address. What
 * a delivery FAILED of, and after how many attempts, stays readable to tools that do not look into the payload.
 */
class EncodingFailureConverter extends DefaultFailureConverter {
  override errorToFailure(...args: Parameters<DefaultFailureConverter['errorToFailure']>) {
    const [error] = args;
    const failure = super.errorToFailure(...args);
    if (!(error instanceof ApplicationFailure) || error.type !== 'DeliveryFailed') return failure;
    return { ...failure, message: error.message.split(';')[0] ?? '' };
  }
}

export const failureConverter = new EncodingFailureConverter({ encodeCommonAttributes: true });
