/**
 * Remembers what has been handled in PostgreSQL, in the transaction that the handler writes in:
 *
 *   CREATE TABLE handled_webhooks (id text PRIMARY KEY, handled_at timestamptz NOT NULL DEFAULT now());
 */
import type { Pool, PoolClient } from 'pg';
import type { OnceStore } from '../../src/receiver/index.ts'; // 'hookladder/receiver' when installed

/**
 * The unique key does the work: a second webhook with the id waits for the first one's transaction, then inserts no row,
 * or takes over if the first was rolled back. A process that dies is rolled back by the database.
 */
export function postgresStore(pool: Pool): OnceStore<PoolClient> {
  return {
    async claim(id) {
      const client = await pool.connect();
      const end = (statement: 'COMMIT' | 'ROLLBACK') => async (): Promise<void> => {
        try {
          const { command } = await client.query(statement);
          // What PostgreSQL makes of a COMMIT after an error that the handler has swallowed.
          if (command !== statement) throw new Error('the transaction of the handler has failed');
          client.release();
        } catch (error) {
          client.release(true);
          throw error;
        }
      };
      try {
        await client.query("BEGIN; SET LOCAL lock_timeout = '5s'");
        const insert = 'INSERT INTO handled_webhooks (id) VALUES ($1) ON CONFLICT DO NOTHING';
        const { rowCount } = await client.query(insert, [id]);
        if (rowCount === 1) return { tx: client, done: end('COMMIT'), release: end('ROLLBACK') };
      } catch (error) {
        client.release(true);
        throw error;
      }
      await end('ROLLBACK')();
      return 'done';
    },
  };
}
