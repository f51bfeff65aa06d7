import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { Hookladder } from '../../src/client.ts';
import { SEARCH_ATTRIBUTES } from '../../src/contract.ts';
import { reserveFreePort } from '../../src/local/free-port.ts';
import { startLocalServer, type LocalServer } from '../../src/local/server.ts';
import { checkRetention, RetentionTooShort } from '../../src/retention.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { freshMerchant, LOOPBACK, SECRET_KEYS } from '../support/stack.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';

const DAY_MS = 86_400_000;
const patience = { timeout: 90_000, interval: 200 };
const workerEntry = join(import.meta.dirname, '..', '..', 'src', 'worker.ts');

let folder: string;
let port: number;
let healthPort: number;
let server: LocalServer;
let connection: Connection;
let client: Client;
let hooks: Hookladder;
let worker: WorkerProcess;
let receiver: Receiver;

async function startServer(retentionDays = 30): Promise<void> {
  server = await startLocalServer({
    binary: inject('temporalBinary'),
    headless: true,
    port,
    dbFile: join(folder, 'state.db'),
    searchAttributes: SEARCH_ATTRIBUTES,
    retentionDays,
    // As many as in production: a poller is at one of them only.
    dynamicConfig: {
      'matching.enableFairness': true,
      'matching.numTaskqueueReadPartitions': 4,
      'matching.numTaskqueueWritePartitions': 4,
    },
  });
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hookladder-'));
  port = await reserveFreePort('127.0.0.1');
  healthPort = await reserveFreePort('127.0.0.1');
  await startServer();
  connection = await Connection.connect({ address: server.address });
  client = new Client({ connection });
  hooks = new Hookladder({ client, secretKeys: SECRET_KEYS, allowHttp: true, allowedNetworks: LOOPBACK });
  receiver = await startReceiver();
  worker = await startWorkerProcess({
    TEMPORAL_ADDRESS: server.address,
    HOOKLADDER_HEALTH_ADDRESS: `127.0.0.1:${healthPort}`,
  });
}, 120_000);
afterAll(async () => {
  await worker.kill();
  await receiver.close();
  await connection.close();
  await server.stop();
  await rm(folder, { recursive: true });
});

async function asked(path: string): Promise<readonly [status: number, text: string]> {
  const answer = await fetch(`http://127.0.0.1:${healthPort}${path}`);
  return [answer.status, (await answer.text()).trim()];
}

test('D5 Temporal goes away under traffic and comes back: the worker stays, is not ready meanwhile, and loses nothing', async () => {
  await vi.waitFor(async () => expect(await asked('/readyz')).toEqual([200, 'ok']), patience);
  expect(await asked('/healthz')).toEqual([200, 'ok']);
  expect((await asked('/'))[0]).toBe(404);

  const merchant = hooks.merchant(freshMerchant());
  await merchant.setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
  receiver.answer((nth) => (nth < 10 ? 404 : 200));
  const webhooks = Array.from({ length: 30 }, (_, nth) => ({
    merchantId: merchant.merchantId,
    webhookId: `w${nth}`,
    type: 'refund.completed',
    body: '{}',
  }));
  await hooks.deliverMany(webhooks);
  await vi.waitFor(() => expect(receiver.received.length).toBeGreaterThan(5), patience);
  server.kill();
  const before = worker.lines.length;
  await vi.waitFor(async () => expect((await asked('/readyz'))[0]).toBe(503), patience);
  expect((await asked('/readyz'))[1]).toMatch(/^Temporal/);
  expect(await asked('/healthz')).toEqual([200, 'ok']);

  await startServer();
  await vi.waitFor(async () => expect(await asked('/readyz')).toEqual([200, 'ok']), patience);
  for (const { webhookId } of webhooks) {
    const delivery = hooks.delivery(merchant.merchantId, webhookId);
    await vi.waitFor(async () => {
      if ((await delivery.status()).state === 'waiting-slow') await delivery.tryNow();
      expect(await delivery.status()).toMatchObject({ state: 'delivered' });
    }, patience);
  }
  // No storm: some lines for each poller and each attempt that could not be told, not some for each try.
  const complaints = worker.lines.slice(before).filter((line) => /"level":(?:40|50)/.test(line));
  expect(complaints.length).toBeLessThan(300);
});

describe('a namespace that forgets too soon', () => {
  async function keep(days: number): Promise<void> {
    await connection.workflowService.updateNamespace({
      namespace: 'default',
      config: { workflowExecutionRetentionTtl: msToTs(days * DAY_MS) },
    });
  }

  test.each([
    [30, undefined],
    [29, 29],
    [3, 3],
  ])('of %i days: a warning says %s', async (days, warned) => {
    await keep(days);
    expect(await checkRetention(client, false)).toBe(warned);
  });

  test('of 2 days is refused, unless it is accepted by name', async () => {
    await keep(2);
    await expect(checkRetention(client, false)).rejects.toThrow(RetentionTooShort);
    expect(await checkRetention(client, true)).toBe(2);
    const env = {
      PATH: process.env['PATH'],
      TEMPORAL_ADDRESS: server.address,
      HOOKLADDER_SECRET_KEYS: SECRET_KEYS.keys,
      HOOKLADDER_ENCRYPTION: 'off',
    };
    const refused = promisify(execFile)(process.execPath, [workerEntry], { env, timeout: 50_000 });
    await expect(refused).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/2 days only[^]*--retention 720h[^]*HOOKLADDER_SHORT_RETENTION=accept/),
    });
    const accepted = await startWorkerProcess({
      TEMPORAL_ADDRESS: server.address,
      HOOKLADDER_SHORT_RETENTION: 'accept',
    });
    expect(accepted.lines.join('\n')).toContain('less than 30 days');
    expect(await accepted.terminate()).toBe(0);
  });
});

test('D7 a worker that is told to end is not ready from then on, lives until it has ended, and ends with 0', async () => {
  const merchant = hooks.merchant(freshMerchant());
  await merchant.setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
  const answer = Promise.withResolvers<void>();
  receiver.answer(() => 200);
  receiver.hold(answer.promise);
  const seen = receiver.received.length;
  const { delivery } = await hooks.deliver({
    merchantId: merchant.merchantId,
    type: 'kyc.status_changed',
    body: '{}',
  });
  await vi.waitFor(() => expect(receiver.received.length).toBe(seen + 1), patience);
  const ended = worker.terminate();
  await vi.waitFor(async () => expect((await asked('/readyz'))[0]).toBe(503), patience);
  expect(await asked('/healthz')).toEqual([200, 'ok']);
  answer.resolve();
  expect(await ended).toBe(0);
  // No worker is left that would end the delivery; what came of its attempt is kept.
  const { events } = await client.workflow.getHandle(delivery.workflowId).fetchHistory();
  expect(events?.filter((event) => event.activityTaskCompletedEventAttributes)).toHaveLength(1);
});
