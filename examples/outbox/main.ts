/**
 * The relay as a process: hands over what services write into the outbox.
 *
 * From the environment: DATABASE_URL, or PGHOST, PGUSER and so on; OUTBOX_KEEP_DAYS, 7 by default, for rows that were
 * handed over; TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and so on; HOOKLADDER_ENCRYPTION_KEYS_FILE. SIGTERM and SIGINT end
 * it after the batch under way.
 */
import { pino } from 'pino';
// 'hookladder' when installed
import { Hookladder } from '../../src/client.ts';
import { runRelay } from './relay.ts';

const { DATABASE_URL: connectionString, OUTBOX_KEEP_DAYS = '7' } = process.env;
const keepDays = Number(OUTBOX_KEEP_DAYS);
if (!(keepDays > 0)) {
  console.error(`OUTBOX_KEEP_DAYS must be a number of days above 0; it is "${OUTBOX_KEEP_DAYS}"`);
  process.exit(1);
}

const stopping = new AbortController();
process.once('SIGTERM', () => stopping.abort());
process.once('SIGINT', () => stopping.abort());

// Calls that nobody answers are given up soon: their rows are locked meanwhile.
const hooks = new Hookladder({ connectTimeoutMs: 5_000 });
const log = pino({ base: null, timestamp: pino.stdTimeFunctions.isoTime });
await runRelay(
  { database: { connectionString }, hooks, log, keepMs: keepDays * 24 * 60 * 60 * 1_000 },
  stopping.signal,
);
await hooks.close();
log.info('stopped');
