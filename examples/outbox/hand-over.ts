import type { ClientBase } from 'pg';
import type { Logger } from 'pino';
// 'hookladder' when installed
import {
  IdConflict,
  InvalidWebhook,
  TemporalUnavailable,
  type Accepted,
  type Hookladder,
} from '../../src/client.ts';

/** The part of the client that a relay uses. */
export type Hooks = Pick<Hookladder, 'deliverMany'>;

interface Row {
  readonly seq: string;
  readonly merchantId: string;
  readonly webhookId: string;
  readonly type: string;
  readonly paymentId: string | null;
  readonly body: string;
  readonly tries: number;
}

/** What came of a row in one try. */
interface Fate {
  readonly state: 'handed-over' | 'parked' | 'waiting';
  readonly reason?: string;
  readonly retryMs?: number;
  /** R70: false if Temporal had it already. */
  readonly started?: boolean;
}

/** Of each payment only the oldest row that waits: so its order is kept, also by several relays. */
export const CLAIM = `
  SELECT seq, merchant_id AS "merchantId", webhook_id AS "webhookId", type, payment_id AS "paymentId", body, tries
  FROM webhook_outbox AS own
  WHERE state = 'waiting' AND retry_at <= now() AND NOT EXISTS (
    SELECT FROM webhook_outbox AS earlier
    WHERE earlier.state = 'waiting' AND earlier.merchant_id = own.merchant_id
      AND earlier.payment_id = own.payment_id AND earlier.seq < own.seq
  )
  ORDER BY seq
  LIMIT $1
  FOR UPDATE SKIP LOCKED`;

const SETTLE = `
  UPDATE webhook_outbox AS own
  SET state = fate.state, reason = fate.reason, tries = own.tries + 1,
    settled_at = CASE WHEN fate.state <> 'waiting' THEN clock_timestamp() END,
    retry_at = clock_timestamp() + fate.retry_ms * interval '1 millisecond'
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::float[]) AS fate (seq, state, reason, retry_ms)
  WHERE own.state = 'waiting' AND own.seq = fate.seq`;

const LONGEST_RETRY_MS = 300_000;

/**
 * Hands over the rows whose turn it is, in one transaction: they are locked until Temporal has said what became of each
 * and that is written down. Whoever dies in between unlocks them; handed over again they start nothing twice (R70).
 * @returns how many rows there were; 0 if there is nothing to do now.
 * @throws TemporalUnavailable once the others are written down; the rows it met are left as they were.
 */
export async function handOver(db: ClientBase, hooks: Hooks, log: Logger, most: number): Promise<number> {
  await db.query('BEGIN');
  const { rows } = await db.query<Row>(CLAIM, [most]);
  const outcomes = await hooks.deliverMany(rows.map(webhookOf));
  const settled = rows.flatMap((row, n) => {
    const outcome = outcomes[n];
    return outcome === undefined || isAway(outcome) ? [] : [{ row, fate: fateOf(row, outcome) }];
  });
  await db.query(SETTLE, [
    settled.map(({ row }) => row.seq),
    settled.map(({ fate }) => fate.state),
    settled.map(({ fate }) => fate.reason),
    settled.map(({ fate }) => fate.retryMs ?? 0),
  ]);
  await db.query('COMMIT');
  for (const { row, fate } of settled) tell(log, row, fate);
  const away = outcomes.find(isAway);
  if (away) throw away.reason;
  return rows.length;
}

function webhookOf({ merchantId, webhookId, type, paymentId, body }: Row) {
  return { merchantId, webhookId, type, body, ...(paymentId === null ? {} : { paymentId }) };
}

function isAway(
  outcome: PromiseSettledResult<Accepted>,
): outcome is PromiseRejectedResult & { reason: TemporalUnavailable } {
  return outcome.status === 'rejected' && outcome.reason instanceof TemporalUnavailable;
}

/** Only what can never be taken is parked; whatever else goes wrong with a row holds up that row alone. */
function fateOf({ tries }: Row, outcome: PromiseSettledResult<Accepted>): Fate {
  if (outcome.status === 'fulfilled') return { state: 'handed-over', started: outcome.value.started };
  const error: unknown = outcome.reason;
  const reason = inWords(error);
  if (error instanceof InvalidWebhook || error instanceof IdConflict) return { state: 'parked', reason };
  return { state: 'waiting', reason, retryMs: backOffMs(tries, LONGEST_RETRY_MS) };
}

function tell(log: Logger, { merchantId, webhookId }: Row, { state, ...rest }: Fate): void {
  const fields = { merchantId, webhookId, ...rest };
  if (state === 'handed-over') log.info(fields, 'handed over');
  if (state === 'parked') log.error(fields, 'parked: mend the row and set its state to waiting');
  if (state === 'waiting') log.warn(fields, 'not handed over, will be tried again');
}

/** From 1 s, doubled for each failure before, less up to a half at random so that relays do not come together. */
export function backOffMs(failuresBefore: number, longestMs: number): number {
  return Math.round(Math.min(longestMs, 1_000 * 2 ** failuresBefore) * (1 - Math.random() / 2));
}

/** An error and its cause, for Temporal's own errors say what is wrong only there. */
export function inWords(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // An AggregateError, of a host with several addresses, has no message of its own.
  const message = error.message || ('code' in error ? String(error.code) : error.name);
  const { cause } = error;
  return cause instanceof Error && !message.includes(cause.message)
    ? `${message}: ${cause.message}`
    : message;
}
