import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterEach, beforeEach, expect, inject, test, vi } from 'vitest';
import { Hookladder, type MerchantHandle } from '../../src/client.ts';
import { SEARCH_ATTRIBUTES } from '../../src/contract.ts';
import { reserveFreePort } from '../../src/local/free-port.ts';
import { startLocalServer, type LocalServer } from '../../src/local/server.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { freshMerchant, LOOPBACK, SECRET_KEYS } from '../support/stack.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';

const policy: PolicyOverrides = {
  attemptTimeoutMs: 2_000,
  fast: { firstPauseMs: 1 },
  breaker: { firstPauseMs: 6_000, longestPauseMs: 12_000, permitMs: 8_000 },
  drain: { perSecond: 10 },
};

let folder: string;
let port: number;
let server: LocalServer;
let connection: Connection;
let hooks: Hookladder;
let worker: WorkerProcess;
let receiver: Receiver;
let merchant: MerchantHandle;

async function startServer(): Promise<void> {
  server = await startLocalServer({
    binary: inject('temporalBinary'),
    headless: true,
    port,
    dbFile: join(folder, 'state.db'),
    searchAttributes: SEARCH_ATTRIBUTES,
    dynamicConfig: { 'matching.enableFairness': true, 'history.timerProcessorMaxTimeShift': '10ms' },
  });
}

async function startWorker(): Promise<void> {
  worker = await startWorkerProcess({ TEMPORAL_ADDRESS: server.address });
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hookladder-'));
  port = await reserveFreePort('127.0.0.1');
  await startServer();
  connection = await Connection.connect({ address: server.address });
  receiver = await startReceiver(() => 500);
  await startWorker();
});
afterEach(async () => {
  await worker.kill();
  await receiver.close();
  await connection.close();
  await server.stop();
  await rm(folder, { recursive: true });
});

async function until(expected: object): Promise<void> {
  await vi.waitFor(async () => expect(await merchant.breaker()).toMatchObject(expected), {
    timeout: 60_000,
    interval: 100,
  });
}

/** Everything but the receiver and the store goes away and comes back. */
async function restartAll(): Promise<void> {
  await worker.kill();
  await server.stop();
  await startServer();
  await startWorker();
}

async function holdThirty(firstPauseMs: number): Promise<void> {
  hooks = new Hookladder({
    client: new Client({ connection }),
    secretKeys: SECRET_KEYS,
    allowHttp: true,
    allowedNetworks: LOOPBACK,
    policy: {
      ...policy,
      breaker: { ...policy.breaker, firstPauseMs, longestPauseMs: Math.max(12_000, firstPauseMs) },
    },
  });
  merchant = hooks.merchant(freshMerchant());
  await merchant.setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
  await hooks.deliver({ merchantId: merchant.merchantId, webhookId: 'first', type: 'x', body: '{}' });
  await until({ gate: { circuit: { state: 'open' } } });
  for (let index = 0; index < 30; index++) {
    await hooks.deliver({ merchantId: merchant.merchantId, webhookId: `w${index}`, type: 'x', body: '{}' });
  }
  await until({ held: 31 });
}

test('R51 D5 a restart of workers and server while open keeps the held and the pause, and no POST is made before its end', async () => {
  // The pause is longer than a restart takes, however slow the machine.
  await holdThirty(300_000);
  const before = await merchant.breaker();
  const posts = receiver.received.length;
  await restartAll();
  const after = await merchant.breaker();
  expect(after?.gate).toEqual(before?.gate);
  expect([after?.held, receiver.received.length]).toEqual([31, posts]);
  receiver.answer(() => 200);
  await merchant.resetBreaker({ by: 'test' });
  await until({ held: 0, gate: { circuit: { state: 'closed' } } });
  await vi.waitFor(
    () => expect(new Set(receiver.received.map(({ headers }) => headers['x-webhook-id'])).size).toBe(31),
    { timeout: 60_000 },
  );
});

test('R48 R51 D5 a restart with the trial in flight: one POST a cycle, the next trial follows, nothing is lost', async () => {
  await holdThirty(6_000);
  const posts = receiver.received.length;
  const answer = Promise.withResolvers<void>();
  receiver.hold(answer.promise);
  await vi.waitFor(() => expect(receiver.received.length).toBe(posts + 1), { timeout: 30_000, interval: 20 });
  await restartAll();
  receiver.answer(() => 200);
  answer.resolve();
  await until({ held: 0, gate: { circuit: { state: 'closed' } } });
  const seen = () => receiver.received.slice(posts).map(({ headers }) => headers['x-webhook-id']);
  // The room is empty when the last is woken; the one that made the trial waits until its attempt counts as lost.
  await vi.waitFor(() => expect(new Set([...seen(), 'first']).size).toBe(31), { timeout: 60_000 });
  // Twice only what was in flight at the kill, if at all.
  expect(seen().length).toBeLessThanOrEqual(32);
});

test('R46 R51 D5 a restart in the middle of the drain: the rest goes on, longest held first, nothing is lost', async () => {
  await holdThirty(6_000);
  receiver.answer(() => 200);
  const posts = receiver.received.length;
  await vi.waitFor(() => expect(receiver.received.length).toBeGreaterThan(posts + 8), {
    timeout: 30_000,
    interval: 20,
  });
  await restartAll();
  await until({ held: 0, gate: { circuit: { state: 'closed' } } });
  await vi.waitFor(
    () => expect(new Set(receiver.received.map(({ headers }) => headers['x-webhook-id'])).size).toBe(31),
    { timeout: 60_000 },
  );
});
