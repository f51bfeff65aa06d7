import type { Problem } from './contract.ts';

/** Base of all errors that the client throws on purpose; `code` is stable. */
export abstract class HookladderError extends Error {
  abstract readonly code: string;
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** R71: a webhook was refused before anything was stored. */
export class InvalidWebhook extends HookladderError {
  readonly code = 'INVALID_WEBHOOK';
  /** What is wrong, field by field. */
  readonly problems: readonly Problem[];
  constructor(problems: readonly Problem[]) {
    super(`the webhook was refused: ${inWords(problems)}`);
    this.problems = problems;
  }
}

/** R72: an endpoint was refused before anything was stored. */
export class InvalidEndpoint extends HookladderError {
  readonly code = 'INVALID_ENDPOINT';
  /** What is wrong, field by field. */
  readonly problems: readonly Problem[];
  constructor(problems: readonly Problem[]) {
    super(`the endpoint was refused: ${inWords(problems)}`);
    this.problems = problems;
  }
}

/** A filter of deliveries was refused. */
export class InvalidFilter extends HookladderError {
  readonly code = 'INVALID_FILTER';
  /** What is wrong, field by field. */
  readonly problems: readonly Problem[];
  constructor(problems: readonly Problem[]) {
    super(`the filter was refused: ${inWords(problems)}`);
    this.problems = problems;
  }
}

/** A merchant without an endpoint has no secret to replace or keep, and nothing to test or export. */
export class NoEndpoint extends HookladderError {
  readonly code = 'NO_ENDPOINT';
  constructor(merchantId: string) {
    super(`merchant ${merchantId} has no endpoint: set one first, with its secret`);
  }
}

/** R63: there is no second secret that could be promoted. */
export class NoRotation extends HookladderError {
  readonly code = 'NO_ROTATION';
  constructor(merchantId: string) {
    super(
      `merchant ${merchantId} has one secret only: rotateSecret was not called, or the old secret has been dropped already`,
    );
  }
}

/** R70: the id belongs to a delivery with another body or type. */
export class IdConflict extends HookladderError {
  readonly code = 'ID_CONFLICT';
  constructor(merchantId: string, webhookId: string) {
    super(
      `webhook ${webhookId} of merchant ${merchantId} exists with another body or type: ` +
        'an id names one webhook; send a different one under an id of its own',
    );
  }
}

/** Temporal cannot be reached or did not answer in time. The call may be repeated: it is idempotent. */
export class TemporalUnavailable extends HookladderError {
  readonly code = 'TEMPORAL_UNAVAILABLE';
  constructor(cause: unknown, address?: string) {
    const where = address === undefined ? '' : ` at ${address}`;
    super(
      `Temporal cannot be reached${where} (${innermost(cause)}): check TEMPORAL_ADDRESS and the TLS settings, and repeat the call`,
      { cause },
    );
  }
}

/** Temporal answers, but no worker took the question, or none can go on with the workflow that was asked. */
export class NoWorker extends HookladderError {
  readonly code = 'NO_WORKER';
  constructor(cause: unknown, why?: string) {
    const message =
      why === undefined
        ? 'no worker answered in time: is a hookladder worker running for this namespace?'
        : `no worker can go on with it: ${why}`;
    super(message, { cause });
  }
}

/** Temporal knows no such delivery: never accepted, or closed for longer than the namespace keeps it. */
export class DeliveryNotFound extends HookladderError {
  readonly code = 'DELIVERY_NOT_FOUND';
  constructor(merchantId: string, webhookId: string, remedy = 'check both ids') {
    super(`there is no delivery of webhook ${webhookId} for merchant ${merchantId}: ${remedy}`);
  }
}

/** Temporal knows no such bulk command: never given, or ended for longer than the namespace keeps it. */
export class BulkNotFound extends HookladderError {
  readonly code = 'BULK_NOT_FOUND';
  constructor(id: string) {
    super(`there is no bulk command ${id}: check the id`);
  }
}

/** Nothing is known of a merchant: no endpoint was ever set, no delivery was ever held. */
export class MerchantNotFound extends HookladderError {
  readonly code = 'MERCHANT_NOT_FOUND';
  constructor(merchantId: string) {
    super(`nothing is known of merchant ${merchantId}: check the id, or set its endpoint first`);
  }
}

/** Something of our own kept us from sending; nothing was sent. */
export class OwnFault extends HookladderError {
  readonly code = 'OWN_FAULT';
  constructor(message: string) {
    super(`our own fault, nothing was sent: ${message}`);
  }
}

/** An exported endpoint cannot be imported. */
export class InvalidExport extends HookladderError {
  readonly code = 'INVALID_EXPORT';
  constructor(message: string) {
    super(`the export was refused: ${message}`);
  }
}

/** A client that sets endpoints needs a key to seal their secrets. */
export class SecretKeyMissing extends HookladderError {
  readonly code = 'SECRET_KEY_MISSING';
  constructor() {
    super(
      'no key to seal secrets with: set HOOKLADDER_SECRET_KEYS_FILE, or HOOKLADDER_SECRET_KEYS, to the keys that the ' +
        'workers have; in code, give `secretKeys` to the client',
    );
  }
}

/** The client is told neither how to encrypt payloads nor that it shall not. */
export class EncryptionNotConfigured extends HookladderError {
  readonly code = 'ENCRYPTION_NOT_CONFIGURED';
}

/** A key that payloads are encrypted with cannot be read, or is not at hand. Its message never carries a key. */
export class EncryptionKeyError extends HookladderError {
  readonly code = 'ENCRYPTION_KEY';
}

/** What lies at the bottom of an error says more than its wrappings. */
function innermost(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // What gRPC says of its own waiting tells nobody anything.
  if (error.message.includes('DEADLINE_EXCEEDED')) return 'no answer in time';
  return error.cause === undefined ? error.message : innermost(error.cause);
}

function inWords(problems: readonly Problem[]): string {
  return problems.map(({ field, message }) => `${field} ${message}`).join('; ');
}
