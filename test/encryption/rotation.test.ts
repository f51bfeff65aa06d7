import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { Hookladder, type DeliveryHandle } from '../../src/client.ts';
import { DELIVERY_TASK_QUEUE, DELIVERY_WORKFLOW, deliveryWorkflowId } from '../../src/contract.ts';
import { newKey } from '../../src/key-list.ts';
import { readFailure } from '../../src/payloads.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  connectTestClient,
  ENCRYPTION,
  freshMerchant,
  startTestWorkers,
  type TestClient,
} from '../support/stack.ts';

const secret = 'a secret of 20 bytes';
const webhook = { type: 'payment.status_changed', body: '{"status":"pending"}' };
const [older, newer] = [newKey('older'), newKey('newer')];
const patiently = { timeout: 60_000, interval: 200 };

let folder: string;
let keysFile: string;
let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;

/** What other files have left on the server has the suite's key. */
async function setKeys(...keys: readonly string[]): Promise<void> {
  await writeFile(`${keysFile}.new`, [...keys, ENCRYPTION.keys].join('\n'));
  await rename(`${keysFile}.new`, keysFile);
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hookladder-rotation-'));
  keysFile = join(folder, 'keys');
  receiver = await startReceiver();
});
/** Each begins with processes that have read the old key just now. */
beforeEach(async () => {
  receiver.answer(() => 200);
  await setKeys(older);
  // A ladder that sleeps until it is told to try.
  client = await connectTestClient({ fast: { firstPauseMs: 3_600_000 } }, { keysFile });
  workers = await startTestWorkers({ encryption: { keysFile } });
});
afterEach(async () => {
  await workers.shutdown();
  await client.close();
});
afterAll(async () => {
  await receiver.close();
  await rm(folder, { recursive: true });
});

async function merchantWithEndpoint(): Promise<string> {
  const merchantId = freshMerchant();
  await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url + merchantId, secret });
  return merchantId;
}

async function deliver(merchantId: string): Promise<DeliveryHandle> {
  return (await client.hooks.deliver({ merchantId, ...webhook })).delivery;
}

async function until(delivery: DeliveryHandle, expected: object): Promise<void> {
  await vi.waitFor(async () => expect(await delivery.status()).toMatchObject(expected), patiently);
}

/** The ids of the keys that the payloads of a history were encrypted with. */
async function keysOf({ workflowId }: DeliveryHandle): Promise<string[]> {
  const history = await client.temporal.workflow.getHandle(workflowId).fetchHistory();
  const ids = [...JSON.stringify(history).matchAll(/"encryption-key-id":"([^"]+)"/g)];
  return [...new Set(ids.map(([, id = '']) => Buffer.from(id, 'base64').toString()))].sort();
}

/** Nothing is known by heart any more: what goes on is decoded from its history. */
async function restartWorkers(): Promise<void> {
  await workers.shutdown();
  workers = await startTestWorkers({ encryption: { keysFile } });
}

describe('a rotation of the keys of payloads', () => {
  test('deliveries that sleep across it are delivered, and new ones have the new key', async () => {
    receiver.answer(() => 500);
    const asleep = await deliver(await merchantWithEndpoint());
    await until(asleep, { state: 'waiting-fast' });
    const nobody = freshMerchant();
    const held = await deliver(nobody);
    await until(held, { state: 'held-no-endpoint' });

    await setKeys(older, newer);
    await restartWorkers();
    await setKeys(newer, older);
    receiver.answer(() => 200);
    await vi.waitFor(async () => {
      const fresh = await deliver(await merchantWithEndpoint());
      await fresh.result();
      expect(await keysOf(fresh)).toEqual(['newer']);
    }, patiently);

    expect(await asleep.tryNow()).toMatchObject({ outcome: 'delivered' });
    await client.hooks.merchant(nobody).setEndpoint({ url: receiver.url + nobody, secret });
    expect(await held.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    for (const delivery of [asleep, held]) expect(await keysOf(delivery)).toEqual(['newer', 'older']);
  });

  test('R6 without the old key a delivery stands still, says why, and goes on when it is back', async () => {
    const merchantId = freshMerchant();
    const workflowId = deliveryWorkflowId(merchantId, 'asleep');
    // Started by hand for its short task timeout: Temporal tries a failed task again after that.
    await client.temporal.workflow.start(DELIVERY_WORKFLOW, {
      workflowId,
      taskQueue: DELIVERY_TASK_QUEUE,
      workflowTaskTimeout: '1 second',
      args: [{ merchantId, webhookId: 'asleep', ...webhook }],
    });
    const delivery = client.hooks.delivery(merchantId, 'asleep');
    await until(delivery, { state: 'held-no-endpoint' });

    await setKeys(newer);
    await restartWorkers();
    const handle = client.temporal.workflow.getHandle(workflowId);
    await handle.signal('tryNow');
    await vi.waitFor(async () => {
      const { events } = await handle.fetchHistory();
      const failure = events?.findLast((event) => event.workflowTaskFailedEventAttributes)
        ?.workflowTaskFailedEventAttributes?.failure;
      expect((await readFailure(client.temporal, failure ?? {})).message).toContain('the key "older"');
    }, patiently);
    const impatient = new Hookladder({
      client: client.temporal,
      encryption: { keysFile },
      connectTimeoutMs: 2_000,
    });
    await expect(impatient.delivery(merchantId, 'asleep').status()).rejects.toMatchObject({
      code: 'NO_WORKER',
      message: expect.stringContaining('the key "older" that encrypted a payload is not configured'),
    });
    const endpoint = { url: receiver.url + merchantId, secret };
    await expect(client.hooks.merchant(merchantId).setEndpoint(endpoint)).rejects.toMatchObject({
      code: 'ENCRYPTION_KEY',
    });
    expect((await handle.describe()).status.name).toBe('RUNNING');

    await setKeys(newer, older);
    await client.hooks.merchant(merchantId).setEndpoint(endpoint);
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    expect(receiver.received.filter(({ path }) => path === `/${merchantId}`)).toHaveLength(1);
  });

  test('R6 an endpoint that cannot be read is an own fault: no attempt, no failure, and healed by the key', async () => {
    const merchantId = await merchantWithEndpoint();
    await setKeys(newer);
    await restartWorkers();
    // One that has not read the old key a moment ago.
    await client.close();
    client = await connectTestClient({ fast: { firstPauseMs: 3_600_000 } }, { keysFile });
    const delivery = await deliver(merchantId);
    await until(delivery, {
      state: 'own-fault',
      attempts: 0,
      reason: expect.stringMatching(/state of the merchant cannot be read: the key "older"/),
    });
    await setKeys(newer, older);
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1, fastFailures: 0 });
  });
});
