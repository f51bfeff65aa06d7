import { v7 as uuidv7 } from 'uuid';
// 'hookladder' when installed
import { InvalidWebhook, type Webhook } from '../../src/client.ts';

/** What runs a statement in the caller's transaction: a client of `pg`, or whatever wraps one. */
export interface Transaction {
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** A webhook to be handed over once the transaction that writes it is committed. */
export interface OutboxWebhook extends Webhook {
  /** The exact text to send, as `JSON.stringify` made it. */
  readonly body: string;
}

/**
 * Writes a webhook into the outbox within the caller's transaction: it is handed over if that commits, and never
 * otherwise. Its id is made here and stays, so handing it over again is the same delivery. Whether hookladder takes the
 * webhook is seen at hand-over: one that it refuses is parked, and undoes no payment.
 * @returns the webhook's id: the one given, else a UUIDv7.
 * @throws InvalidWebhook if the body has a lone surrogate, instead of which PostgreSQL would get another character;
 *   the database's error if the id is in the outbox already (SQLSTATE 23505).
 */
export async function addWebhook(transaction: Transaction, webhook: OutboxWebhook): Promise<string> {
  const { merchantId, webhookId = uuidv7(), type, paymentId, body } = webhook;
  if (!body.isWellFormed()) {
    throw new InvalidWebhook([{ field: 'body', message: 'must be valid UTF-8 (it has a lone surrogate)' }]);
  }
  await transaction.query(
    `INSERT INTO webhook_outbox (merchant_id, webhook_id, type, payment_id, body) VALUES ($1, $2, $3, $4, $5)`,
    [merchantId, webhookId, type, paymentId, body],
  );
  return webhookId;
}
