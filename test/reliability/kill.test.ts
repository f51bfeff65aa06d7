import { execFileSync } from 'node:child_process';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { DeliveryHandle } from '../../src/client.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, SECRET_KEYS, type TestClient } from '../support/stack.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';

const money = { type: 'payment.status_changed', body: '{"status":"paid"}' };
const endpoint = (url: string) => ({ url, secret: 'a secret of 20 bytes' });

let client: TestClient;
let receiver: Receiver;
let merchantId: string;
let worker: WorkerProcess | undefined;

beforeAll(async () => {
  // A lost attempt is noticed after timeout and overhead: both shortened, the ladders are as published.
  client = await connectTestClient({ attemptTimeoutMs: 2_000, attemptOverheadMs: 2_000 });
});
afterAll(async () => {
  await client.close();
});
beforeEach(async () => {
  receiver = await startReceiver();
  merchantId = freshMerchant();
});
afterEach(async () => {
  await worker?.kill();
  worker = undefined;
  await receiver.close();
});

async function restart(environment?: Record<string, string>): Promise<void> {
  await worker?.kill();
  worker = await startWorkerProcess(environment);
}

async function deliver(webhookId: string, webhook = money): Promise<DeliveryHandle> {
  const { delivery } = await client.hooks.deliver({ merchantId, webhookId, ...webhook });
  return delivery;
}

async function untilReceived(count: number): Promise<void> {
  await vi.waitFor(() => expect(receiver.received).toHaveLength(count), { timeout: 60_000 });
}

/** R7: attempts whose outcome was lost, counted in the real history. */
async function lostOutcomes(delivery: DeliveryHandle): Promise<number> {
  const { events } = await client.temporal.workflow.getHandle(delivery.workflowId).fetchHistory();
  return (events ?? []).filter((event) => event.activityTaskTimedOutEventAttributes).length;
}

describe('a worker killed with SIGKILL', () => {
  test('R64 D1 after acceptance and before the first POST: delivered after restart', async () => {
    await restart();
    await client.hooks.merchant(merchantId).setEndpoint(endpoint(receiver.url));
    await worker?.kill();
    const delivery = await deliver('w');
    await restart();
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    expect([receiver.received.length, await lostOutcomes(delivery)]).toEqual([1, 0]);
  });

  test('R7 R64 D1 inside an attempt before its POST: one lost outcome, no POST of it, delivered after restart', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hookladder-'));
    const keysFile = join(folder, 'keys');
    await writeFile(keysFile, SECRET_KEYS.keys);
    await restart({ HOOKLADDER_SECRET_KEYS_FILE: keysFile });
    await client.hooks.merchant(merchantId).setEndpoint(endpoint(receiver.url));
    // Reading a pipe that nobody writes keeps the attempt before its POST.
    await rename(keysFile, `${keysFile}.away`);
    execFileSync('mkfifo', [keysFile]);
    const delivery = await deliver('w');
    await vi.waitFor(async () => expect(await pendingAttempts(delivery)).toBe(1), { timeout: 30_000 });
    await worker?.kill();
    await rename(`${keysFile}.away`, keysFile);
    await restart({ HOOKLADDER_SECRET_KEYS_FILE: keysFile });
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 2, fastFailures: 1 });
    expect([receiver.received.length, await lostOutcomes(delivery)]).toEqual([1, 1]);
    await rm(folder, { recursive: true });
  });

  test('R7 R64 D1 with five POSTs in flight: one lost outcome each, all delivered, twice only what was in flight', async () => {
    await restart();
    await client.hooks.merchant(merchantId).setEndpoint(endpoint(receiver.url));
    const answer = Promise.withResolvers<void>();
    receiver.hold(answer.promise);
    const deliveries = await Promise.all(['a', 'b', 'c', 'd', 'e'].map(async (id) => await deliver(id)));
    await untilReceived(5);
    await worker?.kill();
    answer.resolve();
    await restart();
    for (const delivery of deliveries) {
      expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 2, fastFailures: 1 });
      expect(await lostOutcomes(delivery)).toBe(1);
    }
    // POSTs seen, less the attempts with a known verdict, are those that were in flight at the kill.
    expect(receiver.received.length - deliveries.length).toBe(5);
  });

  test('R7 R82 with a POST in flight of a delivery that was cancelled: cancelled, and the lost outcome is told', async () => {
    await restart();
    await client.hooks.merchant(merchantId).setEndpoint(endpoint(receiver.url));
    receiver.answer(() => 'timeout');
    const delivery = await deliver('w');
    await untilReceived(1);
    await delivery.cancel();
    await restart();
    expect(await delivery.result()).toMatchObject({
      state: 'cancelled',
      attempts: 1,
      lastVerdict: { kind: 'outcome-unknown' },
    });
  });

  test('R11 R64 D1 during a ladder pause: the pause is kept and nothing is lost', async () => {
    await restart();
    await client.hooks.merchant(merchantId).setEndpoint(endpoint(receiver.url));
    receiver.answer((nth) => (nth === 0 ? { status: 503, headers: { 'retry-after': '6' } } : 200));
    const delivery = await deliver('w');
    await vi.waitFor(async () => expect(await delivery.status()).toMatchObject({ state: 'waiting-fast' }), {
      timeout: 30_000,
    });
    await restart();
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 2, fastFailures: 1 });
    expect([receiver.received.length, await lostOutcomes(delivery)]).toEqual([2, 0]);
  });

  test('R7 D9 in every attempt of one delivery: lost outcomes end it, and others go on', async () => {
    await restart();
    await client.hooks.merchant(merchantId).setEndpoint(endpoint(receiver.url));
    receiver.answer((_, { headers }) => (headers['x-webhook-id'] === 'poison' ? 'timeout' : 200));
    const short = await connectTestClient({
      attemptTimeoutMs: 2_000,
      attemptOverheadMs: 1_000,
      fast: { budget: 3 },
    });
    const { delivery: poison } = await short.hooks.deliver({ merchantId, webhookId: 'poison', ...money });
    const others: DeliveryHandle[] = [];
    for (let round = 1; round <= 3; round++) {
      await vi.waitFor(() => expect(poisonous()).toBe(round), { timeout: 60_000, interval: 5 });
      await worker?.kill();
      others.push(await deliver(`other-${round}`));
      await restart();
    }
    expect(await poison.result()).toMatchObject({
      state: 'failed',
      reason: 'fast-ladder-exhausted',
      lastVerdict: { kind: 'outcome-unknown' },
    });
    expect(await lostOutcomes(poison)).toBe(3);
    for (const other of others)
      expect(await other.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    await short.close();
  });
});

describe('a fault of our own', () => {
  let folder: string;
  let keysFile: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hookladder-'));
    keysFile = join(folder, 'keys');
    await writeFile(keysFile, SECRET_KEYS.keys);
    await restart({ HOOKLADDER_SECRET_KEYS_FILE: keysFile });
    await client.hooks.merchant(merchantId).setEndpoint(endpoint(receiver.url));
    await rename(keysFile, `${keysFile}.away`);
  });
  afterEach(async () => {
    await rm(folder, { recursive: true });
  });

  async function untilOwnFault(delivery: DeliveryHandle): Promise<void> {
    await vi.waitFor(async () => expect(await delivery.status()).toMatchObject({ state: 'own-fault' }), {
      timeout: 60_000,
    });
  }

  test('R6 R90 D6 is no attempt, shows as own-fault with the error and since when, and is retried until it is mended', async () => {
    const delivery = await deliver('w');
    await untilOwnFault(delivery);
    const status = await delivery.status();
    expect(status).toMatchObject({
      attempts: 0,
      fastFailures: 0,
      reason: expect.stringMatching(/secrets of the endpoint cannot be opened.*ENOENT/),
    });
    expect(Date.parse(status.faultSince ?? '')).toBeGreaterThanOrEqual(Date.parse(status.acceptedAt));
    await rename(`${keysFile}.away`, keysFile);
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1, fastFailures: 0 });
    expect(receiver.received.map(({ headers }) => headers['x-webhook-attempt'])).toEqual(['1']);
  });

  test('R6 R82 does not keep a cancellation from ending the delivery', async () => {
    const delivery = await deliver('w');
    await untilOwnFault(delivery);
    await delivery.cancel();
    expect(await delivery.result()).toMatchObject({ state: 'cancelled', attempts: 0 });
  });

  test('R6 R24 does not keep the bound from ending the delivery', async () => {
    const short = await connectTestClient({
      maxAgeMs: 5_000,
      attemptTimeoutMs: 500,
      attemptOverheadMs: 2_000,
    });
    const { delivery } = await short.hooks.deliver({ merchantId, ...money });
    await untilOwnFault(delivery);
    expect(await delivery.result()).toMatchObject({ state: 'failed', reason: 'expired', attempts: 0 });
    expect(receiver.received).toHaveLength(0);
    await short.close();
  });
});

test('D7 a worker told to end lets its POSTs finish and exits 0', async () => {
  await restart();
  await client.hooks.merchant(merchantId).setEndpoint(endpoint(receiver.url));
  const answer = Promise.withResolvers<void>();
  receiver.hold(answer.promise);
  const delivery = await deliver('w');
  await untilReceived(1);
  const ended = worker?.terminate();
  await vi.waitFor(() => expect(worker?.lines.some((line) => line.includes('STOPPING'))).toBe(true), {
    timeout: 30_000,
  });
  answer.resolve();
  expect(await ended).toBe(0);
  worker = undefined;
  await restart();
  expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
  expect(receiver.received).toHaveLength(1);
});

async function pendingAttempts(delivery: DeliveryHandle): Promise<number> {
  const { raw } = await client.temporal.workflow.getHandle(delivery.workflowId).describe();
  return (raw.pendingActivities ?? []).filter(({ lastStartedTime }) => lastStartedTime).length;
}

function poisonous(): number {
  return receiver.received.filter(({ headers }) => headers['x-webhook-id'] === 'poison').length;
}
