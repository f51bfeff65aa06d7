import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { DeliveryHandle, MerchantHandle } from '../../src/client.ts';
import { merchantWorkflowId } from '../../src/contract.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Received, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const webhook = { type: 'payment.status_changed', body: '{"status":"paid"}' };
/** Pauses of seconds instead of minutes; the line of R41 is as published. */
const policy: PolicyOverrides = {
  attemptTimeoutMs: 1_000,
  fast: { firstPauseMs: 1 },
  breaker: { firstPauseMs: 2_000, longestPauseMs: 4_000, permitMs: 5_000 },
  drain: { perSecond: 50, slowDownMs: 2_000 },
};

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
let merchantId: string;
let merchant: MerchantHandle;

beforeAll(async () => {
  client = await connectTestClient(policy);
  workers = await startTestWorkers({ policy });
  receiver = await startReceiver();
});
afterAll(async () => {
  await workers.shutdown();
  await client.close();
  await receiver.close();
});
beforeEach(async () => {
  merchantId = freshMerchant();
  merchant = client.hooks.merchant(merchantId);
  receiver.answer(() => 500);
  await merchant.setEndpoint({ url: receiver.url + merchantId, secret: 'a secret of 20 bytes' });
});

/** What the receiver saw of this test's merchant. */
function received(): Received[] {
  return receiver.received.filter(({ path }) => path === `/${merchantId}`);
}

async function deliver(webhookId: string): Promise<DeliveryHandle> {
  const { delivery } = await client.hooks.deliver({ merchantId, webhookId, ...webhook });
  return delivery;
}

async function deliverMany(count: number, name = 'w'): Promise<DeliveryHandle[]> {
  return await Promise.all(
    Array.from({ length: count }, async (_, index) => await deliver(`${name}${index}`)),
  );
}

async function until(expected: object): Promise<void> {
  await vi.waitFor(async () => expect(await merchant.breaker()).toMatchObject(expected), {
    timeout: 30_000,
    interval: 50,
  });
}

const open = { gate: { circuit: { state: 'open' } } };
const closed = { gate: { circuit: { state: 'closed' } } };

describe('the breaker', () => {
  test('R40 R41 a dead endpoint opens it within five attempts of a single webhook', async () => {
    await deliver('w');
    await until(open);
    expect(received().length).toBe(5);
    expect(await merchant.breaker()).toMatchObject({
      transitions: [{ event: 'address-set' }, { event: 'opened' }],
    });
  });

  test('R43 R44 R45 R46 B1 B6 holds every delivery, lets one trial through per cycle, and drains all when it passes', async () => {
    await deliver('first');
    await until(open);
    const held = await deliverMany(60);
    await until({ held: 61 });
    const before = received().length;
    const cyclesBefore =
      (await merchant.breaker())?.transitions.filter(({ event }) => event === 'trial-failed').length ?? 0;
    await vi.waitFor(
      async () => {
        const { transitions = [] } = (await merchant.breaker()) ?? {};
        expect(
          transitions.filter(({ event }) => event === 'trial-failed').length - cyclesBefore,
        ).toBeGreaterThanOrEqual(3);
      },
      { timeout: 40_000, interval: 50 },
    );
    const { transitions = [] } = (await merchant.breaker()) ?? {};
    const trials = transitions.filter(({ event }) => event === 'trial-failed').length - cyclesBefore;
    expect(received().length - before).toBe(trials);
    receiver.answer(() => 200);
    for (const delivery of held) expect(await delivery.result()).toMatchObject({ state: 'delivered' });
    await until({ held: 0, ...closed });
    expect(new Set(received().map(({ headers }) => headers['x-webhook-id'])).size).toBe(61);
  });

  test('R49 B7 a reset by an operator closes it and drains, with who and why', async () => {
    await deliver('first');
    await until(open);
    const held = await deliverMany(10);
    await until({ held: 11 });
    receiver.answer(() => 200);
    await merchant.resetBreaker({ by: 'ann', why: 'the endpoint is back' });
    for (const delivery of held)
      expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    const { transitions } = (await merchant.breaker()) ?? { transitions: [] };
    expect(transitions).toContainEqual({
      at: expect.any(Number),
      event: 'reset',
      by: 'ann',
      why: 'the endpoint is back',
    });
  });

  test('R53 an operator pauses a merchant and resumes it', async () => {
    receiver.answer(() => 200);
    await merchant.pause({ by: 'ann', why: 'their maintenance' });
    const held = await deliverMany(10);
    await until({ held: 10 });
    expect(received()).toHaveLength(0);
    const [first] = held;
    await vi.waitFor(async () => expect(await first?.status()).toMatchObject({ state: 'held-paused' }), {
      timeout: 10_000,
    });
    await merchant.resume({ by: 'ann' });
    for (const delivery of held)
      expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
  });

  test('R52 one that was terminated goes on with its endpoint and its open circuit', async () => {
    await deliver('first');
    await until(open);
    await client.temporal.workflow.getHandle(merchantWorkflowId(merchantId)).terminate();
    const before = received().length;
    const delivery = await deliver('second');
    await until({ held: 1, transitions: [{ event: 'recovered' }] });
    expect(received()).toHaveLength(before);
    receiver.answer(() => 200);
    expect(await delivery.result()).toMatchObject({ state: 'delivered' });
  });

  test('R45 R46 B11 a trial answered 429 closes it, and the drain waits', async () => {
    await deliver('first');
    await until(open);
    const held = await deliverMany(10);
    await until({ held: 11 });
    const before = received().length;
    receiver.answer(() => 429);
    await until({ gate: { circuit: { state: 'closed' }, drainPausedUntil: expect.any(Number) } });
    expect(received().length - before).toBe(1);
    receiver.answer(() => 200);
    for (const delivery of held) expect(await delivery.result()).toMatchObject({ state: 'delivered' });
  });

  test('R48 B2 the trial of a terminated delivery is given to the next', async () => {
    const first = await deliver('first');
    await until(open);
    await deliverMany(2);
    await until({ held: 3 });
    await client.temporal.workflow.getHandle(first.workflowId).terminate();
    receiver.answer(() => 200);
    await until({ held: 0, ...closed });
  });
});
