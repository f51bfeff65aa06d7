import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig } from 'pg';
import type { Logger } from 'pino';
import { backOffMs, handOver, inWords, type Hooks } from './hand-over.ts';

/** What a relay works with. */
export interface RelayOptions {
  /** The outbox's database. Word of new rows needs a session of its own: no pooler in transaction mode. */
  readonly database: ClientConfig;
  readonly hooks: Hooks;
  readonly log: Logger;
  /** Rows handed over at once; 50 by default. */
  readonly batchSize?: number;
  /** How often the outbox is looked at without word of a new row, milliseconds; 5,000 by default. */
  readonly pollMs?: number;
  /** How long rows are kept once they are handed over, milliseconds; 7 days by default. */
  readonly keepMs?: number;
}

const CLEAN_UP = `
  DELETE FROM webhook_outbox WHERE (merchant_id, webhook_id) IN (
    SELECT merchant_id, webhook_id FROM webhook_outbox
    WHERE state = 'handed-over' AND settled_at < now() - $1 * interval '1 millisecond'
    ORDER BY settled_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
  )`;
const CLEAN_UP_EVERY_MS = 60_000;
const CLEAN_UP_AT_ONCE = 1_000;
const WEEK_MS = 7 * 24 * 60 * 60 * 1_000;

/**
 * Hands over what is in the outbox until told to stop; the batch that it has begun it finishes. Several may run side by
 * side, and each may die at any time. While PostgreSQL or Temporal is away it tries again, with pauses of up to 30 s.
 */
export async function runRelay(options: RelayOptions, stop: AbortSignal): Promise<void> {
  let failures = 0;
  while (!stop.aborted) {
    try {
      await relayOnce(options, stop, () => {
        if (failures > 0) options.log.info('hand-over goes on');
        failures = 0;
      });
    } catch (error) {
      const retryMs = backOffMs(failures, 30_000);
      failures += 1;
      options.log.warn({ reason: inWords(error), failures, retryMs }, 'hand-over is interrupted');
      await sleep(retryMs, undefined, { signal: stop }).catch(() => undefined);
    }
  }
}

/** As long as all goes well, with one connection to the outbox. */
async function relayOnce(options: RelayOptions, stop: AbortSignal, succeeded: () => void): Promise<void> {
  const { hooks, log, batchSize = 50, pollMs = 5_000, keepMs = WEEK_MS } = options;
  const db = connectionTo(options.database);
  let news = Promise.withResolvers<void>();
  const wake = () => news.resolve();
  db.on('notification', wake).on('error', wake).on('end', wake);
  stop.addEventListener('abort', wake);
  try {
    await db.connect();
    await db.query('LISTEN webhook_outbox');
    log.info('connected to the outbox');
    let cleanUpAt = 0;
    while (!stop.aborted) {
      // Before the batch: what is written while it runs is not slept over.
      news = Promise.withResolvers();
      const rows = await handOver(db, hooks, log, batchSize);
      succeeded();
      if (Date.now() >= cleanUpAt) {
        const { rowCount } = await db.query(CLEAN_UP, [keepMs, CLEAN_UP_AT_ONCE]);
        if (rowCount !== CLEAN_UP_AT_ONCE) cleanUpAt = Date.now() + CLEAN_UP_EVERY_MS;
      }
      if (rows > 0) continue;
      const poll = setTimeout(wake, pollMs);
      await news.promise;
      clearTimeout(poll);
    }
  } finally {
    stop.removeEventListener('abort', wake);
    // A connection whose other side has vanished may never end.
    await Promise.race([db.end().catch(() => undefined), sleep(1_000, undefined, { ref: false })]);
  }
}

function connectionTo(database: ClientConfig): Client {
  return new Client({
    application_name: 'hookladder-outbox-relay',
    connectionTimeoutMillis: 10_000,
    query_timeout: 30_000,
    keepAlive: true,
    // Unlocks the rows of a relay whose machine has vanished. The longest batch takes less.
    idle_in_transaction_session_timeout: 120_000,
    ...database,
  });
}
