import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { Pool } from 'pg';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { CLAIM, type Hooks } from '../../examples/outbox/hand-over.ts';
import { addWebhook, type OutboxWebhook } from '../../examples/outbox/outbox.ts';
import { setPaymentStatus } from '../../examples/outbox/payments.ts';
import { runRelay, type RelayOptions } from '../../examples/outbox/relay.ts';
import { Hookladder, TemporalUnavailable } from '../../src/client.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startPostgres, type Postgres } from '../support/postgres.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  ENCRYPTION,
  connectTestClient,
  freshMerchant,
  startTestWorkers,
  temporalAddress,
  type TestClient,
} from '../support/stack.ts';
import { startWay } from '../support/way.ts';

const program = fileURLToPath(new URL('../../examples/outbox/main.ts', import.meta.url));
const migration = new URL('../../examples/outbox/migration.sql', import.meta.url);
const PATIENCE = { timeout: 110_000, interval: 20 };
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

type LogLine = Record<string, unknown> & { msg: string };

/** A relay at work, in this process or in one of its own. */
interface Relay {
  readonly log: LogLine[];
  /** Tells it to stop; resolves once it has, with its exit code. What it did is in its log then. */
  stop(): Promise<unknown>;
  kill(): Promise<unknown>;
}

let postgres: Postgres;
let pool: Pool;
let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
let merchantId: string;
const running = new Set<Relay>();

beforeAll(async () => {
  postgres = await startPostgres();
  pool = new Pool({ connectionString: postgres.url });
  pool.on('error', () => undefined);
  await pool.query(await readFile(migration, 'utf8'));
  await pool.query(
    'CREATE TABLE payments (id text PRIMARY KEY, merchant_id text, amount text, currency text, status text)',
  );
  client = await connectTestClient();
  workers = await startTestWorkers();
});
afterAll(async () => {
  await workers?.shutdown();
  await client?.close();
  await pool?.end();
  await postgres?.remove();
});
beforeEach(async () => {
  receiver = await startReceiver();
  merchantId = await merchantOf(receiver);
});
afterEach(async () => {
  for (const relay of running) await relay.kill();
  running.clear();
  await receiver.close();
  await pool.query('TRUNCATE webhook_outbox, payments');
});

async function merchantOf({ url }: Receiver): Promise<string> {
  const id = freshMerchant();
  await client.hooks.merchant(id).setEndpoint({ url, secret: 'a secret of 20 bytes' });
  return id;
}

function relayHere(options: Partial<RelayOptions> = {}): Relay {
  const log: LogLine[] = [];
  const stopping = new AbortController();
  const ended = runRelay(
    {
      database: { connectionString: postgres.url },
      hooks: client.hooks,
      log: pino({}, { write: (line: string) => log.push(JSON.parse(line)) }),
      ...options,
    },
    stopping.signal,
  );
  const stop = async () => {
    stopping.abort();
    await ended;
  };
  const relay = { log, stop, kill: stop };
  running.add(relay);
  return relay;
}

function relayProcess(): Relay & { connected(): Promise<void> } {
  const child = spawn(process.execPath, [program], {
    env: {
      TEMPORAL_ADDRESS: temporalAddress(),
      DATABASE_URL: postgres.url,
      HOOKLADDER_ENCRYPTION_KEYS: ENCRYPTION.keys,
      // Many are started: this halves what a start costs.
      NODE_COMPILE_CACHE: join(tmpdir(), 'node-compile-cache'),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const log: LogLine[] = [];
  const connected = Promise.withResolvers<void>();
  // One that cannot even start is not waited for.
  void ended.then(() => connected.reject(new Error('the relay ended before its first line')));
  connected.promise.catch(() => undefined);
  createInterface({ input: child.stdout }).on('line', (line) => {
    log.push(JSON.parse(line));
    connected.resolve();
  });
  const end = (signal: NodeJS.Signals) => async () => {
    child.kill(signal);
    const [code] = await ended;
    return code as unknown;
  };
  const relay = { log, stop: end('SIGTERM'), kill: end('SIGKILL'), connected: () => connected.promise };
  running.add(relay);
  return relay;
}

async function write(webhook: Partial<OutboxWebhook> = {}): Promise<string> {
  return await addWebhook(pool, { merchantId, type: 'payment.status_changed', body: '{}', ...webhook });
}

async function outbox(): Promise<Record<string, unknown>[]> {
  const { rows } = await pool.query(
    'SELECT webhook_id, state, reason, tries, payment_id FROM webhook_outbox ORDER BY seq',
  );
  return rows;
}

async function lag(): Promise<unknown> {
  const { rows } = await pool.query('SELECT * FROM webhook_outbox_lag');
  return rows[0];
}

async function untilHandedOver(atLeast: number): Promise<void> {
  await vi.waitFor(async () => {
    const { rows } = await pool.query<{ count: string }>(
      `SELECT count(*) FROM webhook_outbox WHERE state = 'handed-over'`,
    );
    expect(Number(rows[0]?.count)).toBeGreaterThanOrEqual(atLeast);
  }, PATIENCE);
}

async function untilReceived(count: number): Promise<void> {
  await vi.waitFor(() => expect(receivedIds()).toHaveLength(count), PATIENCE);
}

function receivedIds(): unknown[] {
  return receiver.received.map(({ headers }) => headers['x-webhook-id']);
}

function lines(relay: Relay, msg: string): LogLine[] {
  return relay.log.filter((line) => line.msg === msg);
}

async function untilLogged(relay: Relay, msg: string, count = 1): Promise<void> {
  await vi.waitFor(() => expect(lines(relay, msg).length).toBeGreaterThanOrEqual(count), PATIENCE);
}

/** The client's hooks with something done around each batch. */
function around(wrap: (deliverMany: Hooks['deliverMany']) => Hooks['deliverMany']): Hooks {
  return { deliverMany: wrap((...call) => client.hooks.deliverMany(...call)) };
}

describe('the outbox', () => {
  test('R60 R70 what a transaction wrote is delivered, byte for byte, if it commits; else never', async () => {
    await pool.query(`INSERT INTO payments VALUES ('pay-1', $1, '10.50', 'EUR', 'open')`, [merchantId]);
    const undone = await pool.connect();
    await undone.query('BEGIN');
    await addWebhook(undone, { merchantId, type: 'payment.status_changed', body: '{"status":"expired"}' });
    await undone.query('ROLLBACK');
    undone.release();
    await setPaymentStatus(pool, 'pay-1', 'paid');
    const body = '{ "b": 1,\n\t"a": 1e2, "a": "ÄÖ 💶 \\u0000" }';
    const webhookId = await write({ body });
    relayHere();

    await untilReceived(2);

    expect(receiver.received.map((request) => request.body.toString()).toSorted()).toEqual([
      body,
      '{"paymentId":"pay-1","status":"paid","amount":"10.50","currency":"EUR"}',
    ]);
    await untilHandedOver(2);
    const [paid, other] = await outbox();
    expect(paid).toMatchObject({ payment_id: 'pay-1', tries: 1, reason: null });
    expect(other).toMatchObject({ webhook_id: webhookId });
    const delivery = client.hooks.delivery(merchantId, String(paid?.['webhook_id']));
    expect(await delivery.result()).toMatchObject({ state: 'delivered', paymentId: 'pay-1', money: true });
  });

  test('R60 a body that PostgreSQL would store as another text is refused', async () => {
    await expect(write({ body: '"\uD800"' })).rejects.toMatchObject({ code: 'INVALID_WEBHOOK' });
    expect(await outbox()).toEqual([]);
  });

  test('R70 a webhook whose id is in the outbox already is refused by its transaction', async () => {
    await write({ webhookId: 'pay-1-paid' });
    await expect(write({ webhookId: 'pay-1-paid' })).rejects.toMatchObject({ code: '23505' });
  });
});

describe('a relay', () => {
  test('hears of a new row at its commit, long before it would look by itself', async () => {
    relayHere({ pollMs: HOUR_MS });
    for (let count = 1; count <= 5; count += 1) {
      await write();
      await untilHandedOver(count);
    }
  });

  test('finds by itself the rows that it did not hear of', async () => {
    const relay = relayHere({ pollMs: 50 });
    await untilLogged(relay, 'connected to the outbox');
    await pool.query('ALTER TABLE webhook_outbox DISABLE TRIGGER USER');
    try {
      for (let count = 1; count <= 3; count += 1) {
        await write();
        await untilHandedOver(count);
      }
    } finally {
      await pool.query('ALTER TABLE webhook_outbox ENABLE TRIGGER USER');
    }
  });

  test('R70 hands over again what Temporal has but the outbox does not know: the same delivery', async () => {
    let calls = 0;
    const hooks = around((deliverMany) => async (...call) => {
      const outcomes = await deliverMany(...call);
      if (outcomes.length > 0 && (calls += 1) === 1) {
        await pool.query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hookladder-outbox-relay'`,
        );
      }
      return outcomes;
    });
    const webhookId = await write();
    const relay = relayHere({ hooks });

    await untilHandedOver(1);

    await relay.stop();
    expect(calls).toBe(2);
    expect(lines(relay, 'handed over')).toMatchObject([{ merchantId, webhookId, started: false }]);
    await client.hooks.delivery(merchantId, webhookId).result();
    expect(receivedIds()).toEqual([webhookId]);
  });

  test('shares the rows with another relay, and both keep the order of each payment', async () => {
    const payments = Array.from({ length: 10 }, (_, n) => `pay-${n}`);
    const written = new Map<string, string[]>(payments.map((paymentId) => [paymentId, []]));
    for (let n = 0; n < 60; n += 1) {
      const paymentId = `pay-${n % 10}`;
      written.get(paymentId)?.push(await write({ paymentId }));
    }
    const firstBatches: string[][] = [];
    const bothHaveOne = Promise.withResolvers<void>();
    const acknowledged = new Map<string, string[]>(payments.map((paymentId) => [paymentId, []]));
    const hooksOfOne = () => {
      let first = true;
      return around((deliverMany) => async (...[webhooks, ...rest]) => {
        if (first) {
          first = false;
          firstBatches.push(webhooks.map(({ webhookId = '' }) => webhookId));
          if (firstBatches.length === 2) bothHaveOne.resolve();
          await bothHaveOne.promise;
        }
        const outcomes = await deliverMany(webhooks, ...rest);
        for (const { paymentId = '', webhookId = '' } of webhooks)
          acknowledged.get(paymentId)?.push(webhookId);
        return outcomes;
      });
    };

    relayHere({ hooks: hooksOfOne(), batchSize: 5 });
    relayHere({ hooks: hooksOfOne(), batchSize: 5 });
    await untilHandedOver(60);

    expect(new Set(firstBatches.flat()).size).toBe(10);
    expect(acknowledged).toEqual(written);
  });

  test('R70 R71 parks what can never be taken, with the reason and without a word of its body; the others go', async () => {
    await client.hooks.deliver({ merchantId, webhookId: 'taken', type: 'a.b', body: '{"other":1}' });
    await write({ webhookId: 'taken', body: '{"card":"4711"}' });
    await write({ webhookId: 'bad-type', type: 'Payment Paid', paymentId: 'pay-1' });
    await write({ webhookId: 'no-json', body: 'card 4711' });
    await write({ webhookId: 'good', paymentId: 'pay-1' });
    const relay = relayHere({ pollMs: 50 });

    await untilHandedOver(1);

    expect(await outbox()).toMatchObject([
      { webhook_id: 'taken', state: 'parked', reason: expect.stringContaining('another body or type') },
      { webhook_id: 'bad-type', state: 'parked', reason: expect.stringContaining('type must be 1 to 128') },
      { webhook_id: 'no-json', state: 'parked', reason: expect.stringContaining('body must be JSON') },
      { webhook_id: 'good', state: 'handed-over', reason: null },
    ]);
    expect(await lag()).toEqual({ waiting: '0', oldest_waiting_seconds: '0', retrying: '0', parked: '3' });
    await untilLogged(relay, 'handed over');
    const parked = lines(relay, 'parked: mend the row and set its state to waiting');
    expect(parked.map(({ level, webhookId }) => [level, webhookId])).toEqual(
      ['taken', 'bad-type', 'no-json'].map((id) => [50, id]),
    );
    expect(JSON.stringify([relay.log, await outbox()])).not.toContain('4711');

    await pool.query(
      `UPDATE webhook_outbox SET state = 'waiting', type = 'payment.paid' WHERE webhook_id = 'bad-type'`,
    );
    await untilHandedOver(2);
    await untilReceived(3);
  });

  test('tries a row again that meets a fault of our own, later and later, and holds up only its payment', async () => {
    let mended = false;
    const hooks = around((deliverMany) => async (...[webhooks, ...rest]) => {
      const outcomes = await deliverMany(
        webhooks.filter(({ webhookId }) => webhookId !== 'odd' || mended),
        ...rest,
      );
      const odd = webhooks.findIndex(({ webhookId }) => webhookId === 'odd');
      if (odd === -1 || mended) return outcomes;
      const fault = new Error('cannot be encoded', { cause: new Error('no key') });
      return outcomes.toSpliced(odd, 0, { status: 'rejected', reason: fault });
    });
    await write({ webhookId: 'odd', paymentId: 'pay-1' });
    await write({ webhookId: 'next', paymentId: 'pay-1' });
    await write({ webhookId: 'other', paymentId: 'pay-2' });
    const relay = relayHere({ hooks, pollMs: 50 });

    await untilLogged(relay, 'not handed over, will be tried again', 2);
    expect(await lag()).toMatchObject({ waiting: '2', retrying: '1', parked: '0' });
    mended = true;
    await untilHandedOver(3);

    await relay.stop();
    expect(lines(relay, 'handed over').map(({ webhookId }) => webhookId)).toEqual(['other', 'odd', 'next']);
    const faults = lines(relay, 'not handed over, will be tried again');
    expect(faults[0]).toMatchObject({ level: 40, webhookId: 'odd', reason: 'cannot be encoded: no key' });
    for (const [n, longest] of [1_000, 2_000].entries()) {
      expect(faults[n]?.['retryMs']).toBeGreaterThanOrEqual(longest / 2);
      expect(faults[n]?.['retryMs']).toBeLessThanOrEqual(longest);
    }
    expect((await outbox()).map(({ tries }) => tries)).toEqual([faults.length + 1, 1, 1]);
  });

  test.for([0, 5_000])('reads no row that was handed over, with %i waiting', async (waiting) => {
    const rows = `INSERT INTO webhook_outbox (merchant_id, webhook_id, type, payment_id, body, state, settled_at)
      SELECT 'm', $1 || n, 'a', 'p' || n / 3, repeat(' ', 800) || '{}', $1, now() FROM generate_series(1, $2::int) AS n`;
    await pool.query(rows, ['handed-over', 20_000]);
    await pool.query(rows, ['waiting', waiting]);
    await pool.query('ANALYZE webhook_outbox');
    const plan = await pool.query<{ 'QUERY PLAN': string }>(`EXPLAIN ${CLAIM}`, [50]);
    const scans = plan.rows.map((row) => row['QUERY PLAN']).filter((line) => line.includes('Scan'));
    expect(scans).toHaveLength(2);
    for (const scan of scans) expect(scan).toMatch(/Index Scan using webhook_outbox_(open|order) /);
  });

  test('removes what was handed over long ago, and nothing else', async () => {
    const old = `INSERT INTO webhook_outbox (merchant_id, webhook_id, type, body, state, settled_at, retry_at)`;
    await pool.query(`${old} SELECT 'm', 'old-' || n, 'a', '{}', 'handed-over', now() - interval '8 days', now()
      FROM generate_series(1, 1500) AS n`);
    await pool.query(`${old} VALUES
      ('m', 'young', 'a', '{}', 'handed-over', now() - interval '6 days', now()),
      ('m', 'parked', 'a', '{}', 'parked', now() - interval '8 days', now()),
      ('m', 'waiting', 'a', '{}', 'waiting', NULL, now() + interval '1 hour')`);
    relayHere({ pollMs: 50, keepMs: 7 * DAY_MS });

    await vi.waitFor(async () => {
      const { rows } = await pool.query<{ n: string }>('SELECT count(*) AS n FROM webhook_outbox');
      expect(Number(rows[0]?.n)).toBeLessThan(1_500);
    }, PATIENCE);
    await vi.waitFor(async () => {
      expect((await outbox()).map((row) => row['webhook_id'])).toEqual(['young', 'parked', 'waiting']);
    }, PATIENCE);
  });
});

describe('without Temporal or PostgreSQL', () => {
  test('R70 while Temporal is away rows wait as they are, in few lines of log, and go when it is back', async () => {
    const way = await startWay(temporalAddress());
    const connection = Connection.lazy({ address: way.address });
    const hooks = new Hookladder({ client: new Client({ connection }), connectTimeoutMs: 1_000 });
    const relay = relayHere({ hooks });
    const first = await write();
    await untilHandedOver(1);

    await way.close();
    const others = [await write(), await write()];
    await untilLogged(relay, 'hand-over is interrupted', 2);
    expect((await outbox()).slice(1)).toMatchObject([
      { state: 'waiting', tries: 0, reason: null },
      { state: 'waiting', tries: 0, reason: null },
    ]);

    await way.open();
    await untilHandedOver(3);
    await untilReceived(3);
    expect(receivedIds().toSorted()).toEqual([first, ...others].toSorted());
    await relay.stop();
    // One for each try, later and later.
    const interrupted = lines(relay, 'hand-over is interrupted');
    expect(interrupted.map(({ level, failures }) => [level, failures])).toEqual(
      interrupted.map((_, n) => [40, n + 1]),
    );
    expect(lines(relay, 'hand-over goes on')).toHaveLength(1);
    await connection.close();
    await way.close();
  });

  test('R70 what Temporal took before it went away is marked, the rest is left as it was', async () => {
    let away = true;
    const hooks = around((deliverMany) => async (...[webhooks, ...rest]) => {
      if (!away || webhooks.length < 2) return await deliverMany(webhooks, ...rest);
      away = false;
      const reason = new TemporalUnavailable(new Error('away'));
      return [{ status: 'rejected', reason }, ...(await deliverMany(webhooks.slice(1), ...rest))];
    });
    const [first, second] = [await write(), await write()];
    const relay = relayHere({ hooks });
    await untilHandedOver(2);
    await relay.stop();
    expect(lines(relay, 'handed over')).toMatchObject([
      { webhookId: second, started: true },
      { webhookId: first, started: true },
    ]);
    expect((await outbox()).map(({ tries }) => tries)).toEqual([1, 1]);
    expect(lines(relay, 'hand-over is interrupted')).toHaveLength(1);
  });

  test('while PostgreSQL is away it waits, and goes on when it is back', async () => {
    const relay = relayHere();
    await untilLogged(relay, 'connected to the outbox');
    await postgres.crash();
    await untilLogged(relay, 'hand-over is interrupted');
    await postgres.start();
    const webhookId = await write();
    await untilHandedOver(1);
    await untilReceived(1);
    expect(receivedIds()).toEqual([webhookId]);
  });
});

describe('the relay as a process', () => {
  test('finishes its batch at SIGTERM and exits 0; its log has ids and no bodies', async () => {
    for (let n = 0; n < 120; n += 1) await write({ body: '{"card":"4711"}' });
    const relay = relayProcess();
    await untilLogged(relay, 'handed over');

    expect(await relay.stop()).toBe(0);

    const handedOver = (await outbox()).filter(({ state }) => state === 'handed-over');
    const told = lines(relay, 'handed over');
    expect(told.map(({ webhookId }) => webhookId)).toEqual(handedOver.map((row) => row['webhook_id']));
    expect(relay.log.at(-1)).toMatchObject({ level: 30, msg: 'stopped' });
    expect(JSON.stringify(relay.log)).not.toContain('4711');
    // What it did not hand over, Temporal does not have.
    const rest = relayHere();
    await untilHandedOver(120);
    await rest.stop();
    const all = [...told, ...lines(rest, 'handed over')];
    expect(all.filter(({ started }) => started !== true)).toEqual([]);
  });

  test('says which variable is wrong', async () => {
    const child = spawn(process.execPath, [program], { env: { OUTBOX_KEEP_DAYS: 'a week' } });
    let said = '';
    child.stderr.on('data', (chunk) => (said += String(chunk)));
    const [code] = await once(child, 'close');
    expect([code, said]).toEqual([1, 'OUTBOX_KEEP_DAYS must be a number of days above 0; it is "a week"\n']);
  });

  test('R64 R70 relays killed 20 times while 500 events are written: each delivered, none started twice', async () => {
    const perKill = 25;
    const merchants = [merchantId, await merchantOf(receiver), await merchantOf(receiver)];
    await pool.query(
      `INSERT INTO payments
        SELECT 'pay-' || n, ($1::text[])[1 + n % 3], '10.50', 'EUR', 'open' FROM generate_series(0, 49) AS n`,
      [merchants],
    );
    // The next one starts while this one works, so often two are at work when one is killed.
    let next = relayProcess();
    for (let written = 0; written < 500; written += perKill) {
      const relay = next;
      next = relayProcess();
      await relay.connected();
      const events = Array.from({ length: perKill }, (_, n) => written + n);
      const writing = Promise.all(events.map((n) => setPaymentStatus(pool, `pay-${n % 50}`, `status-${n}`)));
      // Half of them once some of these are handed over, half as it comes, which is mostly before.
      if (Math.random() < 0.5) await untilHandedOver(written + Math.floor(Math.random() * perKill));
      await sleep(Math.random() * 100);
      await relay.kill();
      await writing;
    }
    await untilHandedOver(500);
    expect(await next.stop()).toBe(0);

    const rows = await outbox();
    const ids = new Set(rows.map((row) => row['webhook_id']));
    await vi.waitFor(() => expect(new Set(receivedIds())).toEqual(ids), PATIENCE);
    const query = `WorkflowType = "delivery" AND WebhookMerchant IN (${merchants.map((id) => `"${id}"`).join()})`;
    const executions = await vi.waitFor(
      async () => {
        const found = await Array.fromAsync(client.temporal.workflow.list({ query }));
        expect(found.filter(({ status }) => status.name === 'COMPLETED')).toHaveLength(500);
        return found;
      },
      { ...PATIENCE, interval: 250 },
    );
    expect(executions).toHaveLength(500);
    const started = executions
      .toSorted((one, other) => one.startTime.getTime() - other.startTime.getTime())
      .map(({ workflowId }) => workflowId.split(':')[2]);
    const byPayment = Object.groupBy(rows, (row) => String(row['payment_id']));
    for (const ofPayment of Object.values(byPayment)) {
      const written = (ofPayment ?? []).map((row) => row['webhook_id']);
      expect(started.filter((id) => written.includes(id))).toEqual(written);
    }
  }, 600_000);
});
