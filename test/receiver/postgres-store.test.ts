import { Pool, type PoolClient } from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { postgresStore } from '../../examples/receivers/postgres-store.ts';
import { once } from '../../src/receiver/index.ts';
import { startPostgres, type Postgres } from '../support/postgres.ts';

let postgres: Postgres;
let pool: Pool;

beforeAll(async () => {
  postgres = await startPostgres();
  pool = new Pool({ connectionString: postgres.url });
  await pool.query(
    'CREATE TABLE handled_webhooks (id text PRIMARY KEY, handled_at timestamptz NOT NULL DEFAULT now())',
  );
  await pool.query('CREATE TABLE orders (payment_id text PRIMARY KEY)');
}, 120_000);
afterAll(async () => {
  await pool?.end();
  await postgres?.remove();
});
beforeEach(async () => {
  await pool.query('TRUNCATE handled_webhooks, orders');
});

const pay = async (tx: PoolClient): Promise<void> =>
  void (await tx.query("INSERT INTO orders VALUES ('pay_1')"));

async function counts(): Promise<{ ids: number; orders: number }> {
  const { rows } = await pool.query(
    'SELECT (SELECT count(*)::int FROM handled_webhooks) AS ids, (SELECT count(*)::int FROM orders) AS orders',
  );
  return rows[0];
}

test('R64 the id and what the handler writes are kept together', async () => {
  const store = postgresStore(pool);
  expect(await once(store, 'a', pay)).toMatchObject({ outcome: 'handled' });
  expect(await once(store, 'a', pay)).toEqual({ outcome: 'duplicate' });
  expect(await counts()).toEqual({ ids: 1, orders: 1 });
});

test('R64 a handler that fails, also by an error of SQL that it swallows, keeps neither', async () => {
  const store = postgresStore(pool);
  const failing = async (tx: PoolClient): Promise<void> => {
    await pay(tx);
    throw new Error('the handler');
  };
  await expect(once(store, 'a', failing)).rejects.toThrow('the handler');
  const swallowing = async (tx: PoolClient): Promise<void> => {
    await pay(tx);
    await tx.query('SELECT 1 / 0').catch(() => undefined);
  };
  await expect(once(store, 'a', swallowing)).rejects.toThrow('the transaction of the handler has failed');
  expect(await counts()).toEqual({ ids: 0, orders: 0 });
  expect(await once(store, 'a', pay)).toMatchObject({ outcome: 'handled' });
});

test('R64 of several at once one is handled, and the next takes over if it fails', async () => {
  const store = postgresStore(pool);
  let calls = 0;
  const handler = async (tx: PoolClient): Promise<void> => {
    calls += 1;
    if (calls === 1) throw new Error('the first');
    await pay(tx);
  };
  const all = await Promise.allSettled(
    Array.from({ length: 5 }, async () => await once(store, 'a', handler)),
  );
  const outcomes = all.map((each) => (each.status === 'fulfilled' ? each.value.outcome : 'failed'));
  expect(outcomes.toSorted()).toEqual(['duplicate', 'duplicate', 'duplicate', 'failed', 'handled']);
  expect(await counts()).toEqual({ ids: 1, orders: 1 });
});

test('R64 a process that dies in the middle has handled nothing', async () => {
  const store = postgresStore(pool);
  const dying = async (tx: PoolClient): Promise<void> => {
    await pay(tx);
    tx.on('error', () => undefined);
    const { rows } = await tx.query('SELECT pg_backend_pid() AS pid');
    await pool.query('SELECT pg_terminate_backend($1)', [rows[0].pid]);
  };
  await expect(once(store, 'a', dying)).rejects.toThrow();
  expect(await counts()).toEqual({ ids: 0, orders: 0 });
  expect(await once(store, 'a', pay)).toMatchObject({ outcome: 'handled' });
});
