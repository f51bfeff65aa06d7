/**
 * Receives webhooks with Fastify and remembers them in SQLite:
 * PORT=8080 WEBHOOK_SECRET=… WEBHOOK_DATABASE=shop.db node fastify-sqlite.ts
 */
import { DatabaseSync } from 'node:sqlite';
import Fastify from 'fastify';
import { fastifyReceiver, type OnceStore, type WebhookEvent } from '../../src/receiver/index.ts'; // 'hookladder/receiver' when installed

const db = new DatabaseSync(process.env['WEBHOOK_DATABASE'] ?? 'shop.db');
db.exec(`
  PRAGMA journal_mode = WAL;
  PRAGMA busy_timeout = 5000;
  CREATE TABLE IF NOT EXISTS handled_webhooks (id TEXT PRIMARY KEY) STRICT;
  CREATE TABLE IF NOT EXISTS orders (payment_id TEXT PRIMARY KEY, status TEXT NOT NULL) STRICT;
`);

/**
 * The id is inserted in the transaction that the handler writes in: both are kept, or neither. So nothing is handled
 * twice, and a process that dies in between has handled nothing. One connection has one transaction at a time: the next
 * webhook waits for the end of the one before.
 */
function sqliteStore(database: DatabaseSync): OnceStore<DatabaseSync> {
  let turn = Promise.resolve();
  return {
    async claim(id) {
      const before = turn;
      let end: (() => void) | undefined;
      turn = new Promise<void>((resolve) => (end = resolve));
      await before;
      const finish = (statement: 'COMMIT' | 'ROLLBACK') => (): void => {
        try {
          database.exec(statement);
        } finally {
          if (database.isTransaction) database.exec('ROLLBACK');
          end?.();
        }
      };
      try {
        database.exec('BEGIN IMMEDIATE');
        const insert = database.prepare(
          'INSERT INTO handled_webhooks (id) VALUES (?) ON CONFLICT DO NOTHING',
        );
        const isNew = insert.run(id).changes === 1;
        if (isNew) return { tx: database, done: finish('COMMIT'), release: finish('ROLLBACK') };
      } catch (error) {
        if (database.isTransaction) database.exec('ROLLBACK');
        end?.();
        throw error;
      }
      finish('ROLLBACK')();
      return 'done';
    },
  };
}

/** Runs once for each id, in a transaction that is committed before 2xx is answered. */
function handle(event: WebhookEvent, tx: DatabaseSync): void {
  if (event.type !== 'payment.status_changed') return; // Accept what is not used, and what is not known yet.
  const { payment_id, status } = event.data as { payment_id?: unknown; status?: unknown };
  if (typeof payment_id !== 'string') throw new Error('a payment event without payment_id');
  const upsert = `INSERT INTO orders (payment_id, status) VALUES (?, ?)
    ON CONFLICT (payment_id) DO UPDATE SET status = excluded.status`;
  tx.prepare(upsert).run(payment_id, String(status));
}

const app = Fastify();
await app.register(
  fastifyReceiver('/webhooks', {
    secrets: () => (process.env['WEBHOOK_SECRET'] ?? '').split(',').filter(Boolean),
    store: sqliteStore(db),
    handler: handle,
  }),
);
const address = await app.listen({ port: Number(process.env['PORT'] ?? 8080), host: '127.0.0.1' });
console.log(`listening on ${address}/webhooks`);
