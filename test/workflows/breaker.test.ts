import { defineSearchAttributeKey } from '@temporalio/common';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { DeliveryHandle, Hookladder, MerchantHandle } from '../../src/client.ts';
import { merchantWorkflowId } from '../../src/contract.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Received, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const webhook = { type: 'payment.status_changed', body: '{"status":"paid"}' };
/** Pauses of seconds instead of minutes; the line of R41 is as published, and no attempt is cut off on a busy machine. */
const policy: PolicyOverrides = {
  attemptTimeoutMs: 60_000,
  fast: { firstPauseMs: 1 },
  breaker: { firstPauseMs: 2_000, longestPauseMs: 4_000, permitMs: 5_000 },
  drain: { perSecond: 50, slowDownMs: 2_000 },
};

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
let hooks: Hookladder;
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
  hooks = client.hooks;
  merchant = hooks.merchant(merchantId);
  receiver.answer(() => 500);
  await merchant.setEndpoint({ url: receiver.url + merchantId, secret: 'a secret of 20 bytes' });
});

/** What the receiver saw of this test's merchant. */
function received(): Received[] {
  return receiver.received.filter(({ path }) => path === `/${merchantId}`);
}

/** From here on the test's merchant is one whose pause does not end within the test. */
async function becomePatient(): Promise<TestClient> {
  return await useMerchantWith({ breaker: { firstPauseMs: 600_000 } });
}

/** From here on the test's merchant and its deliveries follow these numbers. */
async function useMerchantWith(overrides: PolicyOverrides): Promise<TestClient> {
  const patient = await connectTestClient({ ...policy, ...overrides });
  hooks = patient.hooks;
  merchantId = freshMerchant();
  merchant = hooks.merchant(merchantId);
  await merchant.setEndpoint({ url: receiver.url + merchantId, secret: 'a secret of 20 bytes' });
  return patient;
}

async function deliver(webhookId: string): Promise<DeliveryHandle> {
  const { delivery } = await hooks.deliver({ merchantId, webhookId, ...webhook });
  return delivery;
}

async function deliverMany(count: number, name = 'w'): Promise<DeliveryHandle[]> {
  return await Promise.all(
    Array.from({ length: count }, async (_, index) => await deliver(`${name}${index}`)),
  );
}

/** How many activities of a kind it has scheduled. */
async function activities({ workflowId }: DeliveryHandle, type: string): Promise<number> {
  const { events } = await client.temporal.workflow.getHandle(workflowId).fetchHistory();
  const scheduled = (events ?? []).map(
    (event) => event.activityTaskScheduledEventAttributes?.activityType?.name,
  );
  return scheduled.filter((name) => name === type).length;
}

async function until(expected: object): Promise<void> {
  await vi.waitFor(async () => expect(await merchant.breaker()).toMatchObject(expected), {
    timeout: 30_000,
    interval: 50,
  });
}

const open = { gate: { circuit: { state: 'open' } } };
/** The one that opened it is held: so the worker has read that it is open, and posts nothing that comes now. */
const openAndRead = { ...open, held: 1 };
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
    await until(openAndRead);
    const held = await deliverMany(200);
    await until({ held: 201 });
    const ends: number[] = [];
    const failedTrials = async () => {
      const { transitions = [] } = (await merchant.breaker()) ?? {};
      ends.push(
        ...transitions.flatMap(({ at, event }) =>
          event === 'trial-failed' && at > (ends.at(-1) ?? 0) ? [at] : [],
        ),
      );
      return ends.length;
    };
    await vi.waitFor(async () => expect(await failedTrials()).toBeGreaterThanOrEqual(4), {
      timeout: 90_000,
      interval: 200,
    });
    for (const [index, to] of ends.entries()) {
      const from = ends[index - 1];
      if (from !== undefined) expect(received().filter(({ at }) => at > from && at <= to)).toHaveLength(1);
    }
    receiver.answer(() => 200);
    for (const delivery of held) expect(await delivery.result()).toMatchObject({ state: 'delivered' });
    await until({ held: 0, ...closed });
    expect(new Set(received().map(({ headers }) => headers['x-webhook-id'])).size).toBe(201);
  });

  test('R49 B7 a reset by an operator closes it and drains, with who and why', async () => {
    const patient = await becomePatient();
    await deliver('first');
    await until(openAndRead);
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
    await patient.close();
  });

  test('R53 an operator pauses a merchant and resumes it', async () => {
    receiver.answer(() => 200);
    await merchant.pause({ by: 'ann', why: 'their maintenance' });
    const held = await deliverMany(10);
    await until({ held: 10 });
    expect(received()).toHaveLength(0);
    const [first] = held;
    await vi.waitFor(async () => expect(await first?.status()).toMatchObject({ state: 'held-paused' }), {
      timeout: 30_000,
    });
    await merchant.resume({ by: 'ann' });
    for (const delivery of held)
      expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
  });

  test('R52 one that was terminated goes on with its endpoint and its open circuit', async () => {
    const patient = await becomePatient();
    await deliver('first');
    await until(openAndRead);
    await client.temporal.workflow.getHandle(merchantWorkflowId(merchantId)).terminate();
    const before = received().length;
    expect(await merchant.breaker()).toMatchObject({ ended: true, summary: expect.stringMatching(/^ended/) });
    const delivery = await deliver('second');
    await until({ ...open, transitions: [{ event: 'recovered' }] });
    const entity = client.temporal.workflow.getHandle(merchantWorkflowId(merchantId));
    const { typedSearchAttributes } = await entity.describe();
    expect(typedSearchAttributes.get(defineSearchAttributeKey('WebhookBreaker', 'KEYWORD'))).toBe('open');
    await vi.waitFor(async () => expect(await delivery.status()).toMatchObject({ state: 'held-breaker' }), {
      timeout: 30_000,
    });
    expect(received()).toHaveLength(before);
    receiver.answer(() => 200);
    await merchant.resetBreaker();
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    await patient.close();
  });

  test('R45 R46 B11 a trial answered 429 closes it, and the drain waits', async () => {
    await deliver('first');
    await until(openAndRead);
    const held = await deliverMany(10);
    await until({ held: 11 });
    let slowedDown = 0;
    receiver.answer((_, { path }) => {
      if (path === `/${merchantId}`) slowedDown += 1;
      return 429;
    });
    await until({ gate: { circuit: { state: 'closed' }, drainPausedUntil: expect.any(Number) } });
    expect(slowedDown).toBe(1);
    receiver.answer(() => 200);
    for (const delivery of held) {
      const { attempts } = await delivery.result();
      // Refused once, then woken: when the drain goes on, nobody is woken to a gate that still says no.
      if (attempts === 1) expect(await activities(delivery, 'attempt')).toBe(2);
    }
  });

  test('R48 B2 the trial of a terminated delivery is given to the next', async () => {
    const first = await deliver('first');
    await until(openAndRead);
    await deliverMany(2);
    await until({ held: 3 });
    await client.temporal.workflow.getHandle(first.workflowId).terminate();
    receiver.answer(() => 200);
    await until({ held: 0, ...closed });
  });

  test('R48 B2 a trial that is not heard of loses its permit, and the next delivery gets a new one', async () => {
    // The endpoint answers after the permit has ended: to the entity, a worker that died.
    const impatient = await connectTestClient({
      ...policy,
      attemptTimeoutMs: 8_000,
      breaker: { ...policy.breaker, permitMs: 3_000 },
    });
    merchantId = freshMerchant();
    merchant = impatient.hooks.merchant(merchantId);
    await merchant.setEndpoint({ url: receiver.url + merchantId, secret: 'a secret of 20 bytes' });
    for (const webhookId of ['first', 'a', 'b', 'c']) {
      await impatient.hooks.deliver({ merchantId, webhookId, ...webhook });
    }
    await until({ ...open, held: 4 });
    const before = received().length;
    const answer = Promise.withResolvers<void>();
    receiver.hold(answer.promise);
    await vi.waitFor(() => expect(received().length).toBe(before + 2), { timeout: 60_000, interval: 20 });
    const { transitions = [] } = (await merchant.breaker()) ?? {};
    expect(transitions.filter(({ event }) => event === 'permit-lost').length).toBeGreaterThanOrEqual(1);
    receiver.answer(() => 200);
    answer.resolve();
    await until({ held: 0, ...closed });
    await impatient.close();
  });

  test('B4 sixteen clients ask for its state in a loop while reports arrive, and every answer comes', async () => {
    receiver.answer((nth) => (nth % 5 === 0 ? 500 : 200));
    const deliveries = deliverMany(60);
    const asking = Array.from({ length: 16 }, async () => {
      for (let round = 0; round < 20; round++)
        expect(await merchant.describe()).toMatchObject({ merchantId });
    });
    await Promise.all(asking);
    for (const delivery of await deliveries)
      expect(await delivery.result()).toMatchObject({ state: 'delivered' });
  });

  test('R49 B7 reset while half-open with a trial in flight, while draining, and twice: nothing is sent twice', async () => {
    // A trial whose permit is lost would rightly be followed by another.
    const patient = await useMerchantWith({ breaker: { firstPauseMs: 2_000, permitMs: 90_000 } });
    await deliver('first');
    await until(openAndRead);
    const held = await deliverMany(100);
    await until({ held: 101 });
    const answer = Promise.withResolvers<void>();
    const before = received().length;
    receiver.hold(answer.promise);
    await vi.waitFor(() => expect(received().length).toBe(before + 1), { timeout: 60_000, interval: 20 });
    await merchant.resetBreaker({ by: 'ann' });
    receiver.answer(() => 200);
    answer.resolve();
    await until({ gate: { draining: true } });
    await Promise.all([merchant.resetBreaker({ by: 'bob' }), merchant.resetBreaker({ by: 'bob' })]);
    for (const delivery of held) expect(await delivery.result()).toMatchObject({ state: 'delivered' });
    const delivered = received()
      .slice(before)
      .map(({ headers }) => headers['x-webhook-id']);
    expect(delivered.length - new Set(delivered).size).toBe(0);
    await patient.close();
  });

  test('R50 B8 an address that is removed in mid-drain holds the rest again, and nothing is lost', async () => {
    receiver.answer(() => 200);
    await merchant.removeEndpoint();
    const held = await deliverMany(200);
    await until({ held: 200 });
    await merchant.setEndpoint({ url: receiver.url + merchantId, secret: 'a secret of 20 bytes' });
    await vi.waitFor(() => expect(received().length).toBeGreaterThan(20), { timeout: 60_000, interval: 20 });
    await merchant.removeEndpoint();
    await vi.waitFor(async () => expect((await merchant.breaker())?.held).toBe(200 - received().length), {
      timeout: 30_000,
      interval: 200,
    });
    expect(received().length).toBeLessThan(200);
    await merchant.setEndpoint({ url: receiver.url + merchantId, secret: 'a secret of 20 bytes' });
    for (const delivery of held)
      expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    expect(received().length).toBe(200);
  });

  test('B5 a merchant whose endpoint hangs has eight attempts under way in a worker, and the others go on beside it', async () => {
    const hanging = await connectTestClient({
      attemptTimeoutMs: 45_000,
      breaker: { leastSamples: 1_000 },
    });
    const slow = freshMerchant();
    receiver.answer((_, { path }) => (path === `/${slow}` ? 'timeout' : 200));
    await hanging.hooks
      .merchant(slow)
      .setEndpoint({ url: receiver.url + slow, secret: 'a secret of 20 bytes' });
    const hung = () => receiver.received.filter(({ path }) => path === `/${slow}`).length;
    for (let index = 0; index < 60; index++) {
      await hanging.hooks.deliver({ merchantId: slow, webhookId: `w${index}`, ...webhook });
    }
    await vi.waitFor(() => expect(hung()).toBe(8), { timeout: 30_000, interval: 20 });
    for (const delivery of await deliverMany(60))
      expect(await delivery.result()).toMatchObject({ state: 'delivered' });
    // The first eight are still waiting for their answers: nobody else of this merchant was let in meanwhile.
    expect(hung()).toBe(8);
    for (let index = 0; index < 60; index++) await hanging.hooks.delivery(slow, `w${index}`).cancel();
    await hanging.close();
  });

  test('R53 R90 what is held tells what holds it now, and the page of the merchant how many there are', async () => {
    const patient = await becomePatient();
    await deliver('first');
    await until(openAndRead);
    const delivery = await deliver('held');
    await until({ held: 2 });
    const now = async (expected: object) =>
      await vi.waitFor(async () => expect(await delivery.status()).toMatchObject(expected), {
        timeout: 30_000,
      });
    await now({ state: 'held-breaker', reason: 'breaker', heldUntil: expect.any(String) });
    const entity = client.temporal.workflow.getHandle(merchantWorkflowId(merchantId));
    expect(await entity.query('__temporal_workflow_metadata')).toMatchObject({
      currentDetails: expect.stringContaining('2 held'),
    });
    await merchant.pause({ by: 'ann' });
    await now({ state: 'held-paused', reason: 'paused' });
    await merchant.resume();
    await merchant.removeEndpoint();
    await now({ state: 'held-no-endpoint', reason: 'no-endpoint' });
    await delivery.cancel();
    await patient.close();
  });

  test('R44 B9 one webhook that is always answered 500 does not keep the others from going', async () => {
    receiver.answer((_, { headers }) => (headers['x-webhook-id'] === 'poison' ? 500 : 200));
    const poison = await deliver('poison');
    await until(openAndRead);
    const others = await deliverMany(5);
    for (const other of others)
      expect(await other.result()).toMatchObject({ state: 'delivered', fastFailures: 0 });
    expect(await poison.result()).toMatchObject({
      state: 'failed',
      reason: 'fast-ladder-exhausted',
      attempts: 10,
    });
  });

  test('R49 B10 timeouts that come in after a reset are of an earlier epoch: the breaker stays closed', async () => {
    const cutOff = await useMerchantWith({ attemptTimeoutMs: 1_000 });
    receiver.answer(() => 'timeout');
    await deliverMany(8);
    await vi.waitFor(() => expect(received()).toHaveLength(8), { timeout: 30_000, interval: 10 });
    await merchant.resetBreaker({ by: 'ann' });
    receiver.answer(() => 200);
    await vi.waitFor(() => expect(received().length).toBeGreaterThanOrEqual(16), { timeout: 60_000 });
    expect(await merchant.breaker()).toMatchObject({ ...closed, failed: 0 });
    await cutOff.close();
  });

  test('R50 B12 a working address that is set during the pause makes the trial due at once', async () => {
    const patient = await becomePatient();
    await deliver('first');
    await until(openAndRead);
    const held = await deliverMany(3);
    await until({ held: 4 });
    await merchant.removeEndpoint();
    await until({ gate: expect.not.objectContaining({ endpoint: expect.anything() }) });
    receiver.answer(() => 200);
    await merchant.setEndpoint({ url: `${receiver.url}${merchantId}?moved`, secret: 'a secret of 20 bytes' });
    for (const delivery of held)
      expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    await patient.close();
  });

  test('R43 R44 B13 when all are inside ladder pauses at the end of the pause, the first that asks makes the trial', async () => {
    receiver.answer((nth) => (nth < 5 ? { status: 503, headers: { 'retry-after': '4' } } : 500));
    const deliveries = await deliverMany(5);
    await until(open);
    expect(await merchant.breaker()).toMatchObject({ held: 0 });
    await until({
      transitions: expect.arrayContaining([expect.objectContaining({ event: 'trial-failed' })]),
    });
    expect(received()).toHaveLength(6);
    receiver.answer(() => 200);
    for (const delivery of deliveries) expect(await delivery.result()).toMatchObject({ state: 'delivered' });
  });

  test('D8 thirty wake-ups of one held delivery leave one timer and a bounded history', async () => {
    await deliver('first');
    await until(openAndRead);
    const handle = client.temporal.workflow.getHandle((await deliver('held')).workflowId);
    await until({ held: 2 });
    const before = (await handle.describe()).historyLength;
    for (let index = 0; index < 30; index++) await handle.signal('release', { call: 999, version: 1 });
    await vi.waitFor(
      async () => expect((await handle.describe()).historyLength).toBeGreaterThanOrEqual(before + 30),
      {
        timeout: 30_000,
      },
    );
    // A wake-up that is stale costs its signal and the workflow task that looks at it.
    expect((await handle.describe()).historyLength - before).toBeLessThanOrEqual(30 * 4);
    const { events = [] } = await handle.fetchHistory();
    const count = (
      name: 'timerStartedEventAttributes' | 'timerFiredEventAttributes' | 'timerCanceledEventAttributes',
    ) => (events ?? []).filter((event) => event[name]).length;
    const pending =
      count('timerStartedEventAttributes') -
      count('timerFiredEventAttributes') -
      count('timerCanceledEventAttributes');
    expect(pending).toBeLessThanOrEqual(1);
  });
});
