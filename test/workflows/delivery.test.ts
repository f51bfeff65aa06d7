import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { DeliveryHandle } from '../../src/client.ts';
import { readFailure } from '../../src/payloads.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const money = { type: 'payment.status_changed', body: '{"status":"paid"}' };
const notMoney = { type: 'kyc.status_changed', body: '{"status":"approved"}' };
const secret = 'a secret of 20 bytes';

let client: TestClient;
/** A client whose deliveries climb quickly; what it shortens is said in its policy. */
let quick: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
let merchantId: string;

beforeAll(async () => {
  client = await connectTestClient();
  quick = await connectTestClient({
    attemptTimeoutMs: 500,
    fast: { firstPauseMs: 1, budget: 4 },
    slow: { stepsMs: [20, 20, 20, 20, 20] },
  });
  workers = await startTestWorkers();
  receiver = await startReceiver();
});
afterAll(async () => {
  await workers.shutdown();
  await client.close();
  await quick.close();
  await receiver.close();
});
beforeEach(() => {
  merchantId = freshMerchant();
  receiver.received.length = 0;
  receiver.answer(() => 200);
});

async function withEndpoint(): Promise<void> {
  await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret });
}

async function handOver(webhook: typeof money, through = client): Promise<DeliveryHandle> {
  const { delivery } = await through.hooks.deliver({ merchantId, ...webhook });
  return delivery;
}

async function untilState(delivery: DeliveryHandle, state: string): Promise<void> {
  await vi.waitFor(async () => expect(await delivery.status()).toMatchObject({ state }), {
    timeout: 60_000,
    interval: 50,
  });
}

async function historyOf(delivery: DeliveryHandle) {
  const { events } = await client.temporal.workflow.getHandle(delivery.workflowId).fetchHistory();
  return events ?? [];
}

/** When the entity woke a delivery, in nanoseconds of Temporal's clock. */
async function releasedAt(delivery: DeliveryHandle): Promise<number> {
  const release = (await historyOf(delivery)).find(
    (event) => event.workflowExecutionSignaledEventAttributes?.signalName === 'release',
  );
  return Number(release?.eventTime?.seconds) * 1e9 + Number(release?.eventTime?.nanos);
}

describe('a delivery', () => {
  test('R1 R80 completes with its result when the first attempt is answered 200, in exactly 11 history events', async () => {
    await withEndpoint();
    const delivery = await handOver(money);
    expect(await delivery.result()).toMatchObject({
      merchantId,
      webhookId: delivery.webhookId,
      state: 'delivered',
      money: true,
      attempts: 1,
      fastFailures: 0,
      slowSteps: 0,
      lastVerdict: { kind: 'delivered', status: 200 },
    });
    expect(await historyOf(delivery)).toHaveLength(11);
  });

  test('R10 one further fast attempt costs at most 11 history events', async () => {
    await withEndpoint();
    receiver.answer((nth) => (nth === 0 ? 503 : 200));
    const delivery = await handOver(money, quick);
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 2, fastFailures: 1 });
    expect((await historyOf(delivery)).length).toBeLessThanOrEqual(22);
  });

  test('R60 R61 R62 sends the exact bytes under the same id on each attempt, signed anew', async () => {
    await withEndpoint();
    receiver.answer((nth) => (nth < 2 ? 503 : 200));
    const body =
      '{ "emoji":"🪝", "line":"\u2028", "n":1e21, "z":-0, "big":9007199254740993, "nul":"\\u0000", "half":"\\ud83e" }';
    const { delivery } = await quick.hooks.deliver({
      merchantId,
      type: 'x.y',
      body: new TextEncoder().encode(body),
    });
    const { acceptedAt } = await delivery.result();
    expect(receiver.received.map(({ body: bytes }) => bytes.toString('utf8'))).toEqual([body, body, body]);
    expect(receiver.received.map(({ headers }) => headers['x-webhook-attempt'])).toEqual(['1', '2', '3']);
    for (const { headers, at } of receiver.received) {
      expect(headers).toMatchObject({
        'content-type': 'application/json',
        'user-agent': expect.stringMatching(/^hookladder\/\d+\.\d+\.\d+$/),
        'x-webhook-id': delivery.webhookId,
        'webhook-id': delivery.webhookId,
        'x-webhook-created-at': acceptedAt,
        'x-webhook-signature': expect.stringMatching(/^[0-9a-f]{64}$/),
        'webhook-signature': expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
      });
      expect(Math.abs(Number(headers['x-webhook-timestamp']) * 1_000 - at)).toBeLessThan(5_000);
    }
  });

  test('R80 FAILED carries its reason and last verdict, readable without a worker', async () => {
    await withEndpoint();
    receiver.answer(() => ({ status: 404, body: 'no such hook' }));
    const delivery = await handOver(notMoney);
    const failed = {
      state: 'failed',
      reason: 'rejected',
      attempts: 1,
      lastVerdict: { kind: 'rejected', status: 404, excerpt: 'no such hook' },
    };
    expect(await delivery.result()).toMatchObject(failed);
    expect(await delivery.status()).toMatchObject(failed);
    const description = await client.temporal.workflow.getHandle(delivery.workflowId).describe();
    expect(description.status.name).toBe('FAILED');
    const last = (await historyOf(delivery)).at(-1)?.workflowExecutionFailedEventAttributes?.failure;
    expect(last).toMatchObject({
      message: 'rejected after 1 attempt',
      applicationFailureInfo: { type: 'DeliveryFailed' },
    });
    expect(await readFailure(client.temporal, last ?? {})).toMatchObject({
      message: 'rejected after 1 attempt; last answer: HTTP 404',
      details: [failed],
    });
  });

  test('R4 a redirect of a money event takes the slow ladder and names its target', async () => {
    await withEndpoint();
    receiver.answer(() => ({ status: 301, headers: { location: 'https://elsewhere.example/' } }));
    const delivery = await handOver(money);
    await untilState(delivery, 'waiting-slow');
    expect(await delivery.status()).toMatchObject({
      slowSteps: 1,
      lastVerdict: { kind: 'redirected', location: 'https://elsewhere.example/' },
    });
    await delivery.cancel();
  });

  test('R20 R30 a money event answered 4xx and then mended is delivered on the slow ladder', async () => {
    await withEndpoint();
    receiver.answer((nth) => (nth < 3 ? 403 : 200));
    const delivery = await handOver(money, quick);
    expect(await delivery.result()).toMatchObject({
      state: 'delivered',
      attempts: 4,
      slowSteps: 3,
      fastFailures: 0,
    });
  });

  test('R5 R10 a receiver that never answers exhausts the fast ladder', async () => {
    await withEndpoint();
    receiver.answer(() => 'timeout');
    const delivery = await handOver(money, quick);
    expect(await delivery.result()).toMatchObject({
      state: 'failed',
      reason: 'fast-ladder-exhausted',
      attempts: 4,
      fastFailures: 4,
      lastVerdict: { kind: 'timeout' },
    });
  });

  test('R90 says while it waits until when, at which attempt and after which answer', async () => {
    await withEndpoint();
    receiver.answer(() => ({ status: 404, body: 'gone' }));
    const delivery = await handOver(money);
    await untilState(delivery, 'waiting-slow');
    const status = await delivery.status();
    expect(status).toMatchObject({
      attempts: 1,
      fastFailures: 0,
      slowSteps: 1,
      lastVerdict: { kind: 'rejected', status: 404, durationMs: expect.any(Number), excerpt: 'gone' },
    });
    expect(Date.parse(status.nextAttemptAt ?? '') - Date.parse(status.acceptedAt)).toBeGreaterThanOrEqual(
      900_000,
    );
    expect(Date.parse(status.endsAt ?? '') - Date.parse(status.acceptedAt)).toBeGreaterThanOrEqual(
      48 * 3_600_000,
    );
    const described = await client.temporal.workflow.getHandle(delivery.workflowId).describe();
    expect(described.searchAttributes).toMatchObject({
      WebhookState: ['waiting-slow'],
      WebhookMerchant: [merchantId],
      WebhookEvent: [money.type],
      WebhookMoney: [true],
    });
    await delivery.cancel();
  });
});

describe('a hold', () => {
  test('R50 without an address no attempt is made; when one is set the delivery goes', async () => {
    const delivery = await handOver(money);
    await untilState(delivery, 'held-no-endpoint');
    await vi.waitFor(
      async () => expect(await client.hooks.merchant(merchantId).describe()).toMatchObject({ held: 1 }),
      { timeout: 30_000 },
    );
    expect(await delivery.status()).toMatchObject({ attempts: 0, heldSince: expect.any(String) });
    await withEndpoint();
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1, fastFailures: 0 });
    expect(receiver.received).toHaveLength(1);
    expect(await client.hooks.merchant(merchantId).describe()).toMatchObject({ held: 0, draining: false });
  });

  test('R46 R50 forty held deliveries all go, longest held first', async () => {
    const handed: DeliveryHandle[] = [];
    for (let index = 0; index < 40; index++) {
      const { delivery } = await client.hooks.deliver({ merchantId, webhookId: `w${index}`, ...notMoney });
      handed.push(delivery);
    }
    await vi.waitFor(
      async () => expect(await client.hooks.merchant(merchantId).describe()).toMatchObject({ held: 40 }),
      { timeout: 60_000 },
    );
    const since = new Map<string, string | undefined>();
    for (const delivery of handed) since.set(delivery.webhookId, (await delivery.status()).heldSince);
    await withEndpoint();
    for (const delivery of handed) {
      expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    }
    expect(receiver.received).toHaveLength(40);
    const releases = await Promise.all(
      handed.map(async (delivery) => ({ id: delivery.webhookId, at: await releasedAt(delivery) })),
    );
    const order = releases.toSorted((a, b) => a.at - b.at).map(({ id }) => since.get(id));
    expect(order).toEqual(order.toSorted());
  });

  test('R11 R50 an address that is removed holds the next attempt, and no budget is spent while held', async () => {
    await withEndpoint();
    receiver.answer((nth) => (nth === 0 ? { status: 503, headers: { 'retry-after': '2' } } : 200));
    const delivery = await handOver(money);
    await untilState(delivery, 'waiting-fast');
    await client.hooks.merchant(merchantId).removeEndpoint();
    await untilState(delivery, 'held-no-endpoint');
    expect(receiver.received).toHaveLength(1);
    await withEndpoint();
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 2, fastFailures: 1 });
  });
});

describe('a cancellation', () => {
  test('R82 lets a POST in flight finish: 2xx is delivered', async () => {
    await withEndpoint();
    const gate = Promise.withResolvers<void>();
    receiver.hold(gate.promise);
    const delivery = await handOver(money);
    await vi.waitFor(() => expect(receiver.received).toHaveLength(1), { timeout: 30_000 });
    await delivery.cancel();
    gate.resolve();
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
  });

  test('R82 lets a POST in flight finish: anything else is cancelled', async () => {
    await withEndpoint();
    const gate = Promise.withResolvers<void>();
    receiver.answer(() => 503);
    receiver.hold(gate.promise);
    const delivery = await handOver(money);
    await vi.waitFor(() => expect(receiver.received).toHaveLength(1), { timeout: 30_000 });
    await delivery.cancel();
    gate.resolve();
    expect(await delivery.result()).toMatchObject({
      state: 'cancelled',
      attempts: 1,
      lastVerdict: { status: 503 },
    });
    const described = await client.temporal.workflow.getHandle(delivery.workflowId).describe();
    expect(described.status.name).toBe('CANCELLED');
  });

  test('R82 ends a ladder pause at once', async () => {
    await withEndpoint();
    receiver.answer(() => 404);
    const delivery = await handOver(money);
    await untilState(delivery, 'waiting-slow');
    await delivery.cancel();
    expect(await delivery.result()).toMatchObject({ state: 'cancelled', attempts: 1 });
    await expect(delivery.cancel()).resolves.toBeUndefined();
  });

  test('R82 of a held delivery takes it out of the waiting room', async () => {
    const delivery = await handOver(money);
    await vi.waitFor(
      async () => expect(await client.hooks.merchant(merchantId).describe()).toMatchObject({ held: 1 }),
      { timeout: 30_000 },
    );
    await delivery.cancel();
    expect(await delivery.result()).toMatchObject({ state: 'cancelled', attempts: 0 });
    await vi.waitFor(
      async () => expect(await client.hooks.merchant(merchantId).describe()).toMatchObject({ held: 0 }),
      { timeout: 30_000 },
    );
  });
});

describe('a try now', () => {
  test('R83 delivers from a ladder pause and says so', async () => {
    await withEndpoint();
    receiver.answer((nth) => (nth === 0 ? 404 : 200));
    const delivery = await handOver(money);
    await untilState(delivery, 'waiting-slow');
    expect(await delivery.tryNow()).toMatchObject({ outcome: 'delivered', verdict: { status: 200 } });
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 2, slowSteps: 1 });
    expect(await delivery.tryNow()).toEqual({ outcome: 'ended' });
  });

  test.each([503, 404])(
    'R83 answered %i spends nothing and the pause goes on to its own end',
    async (status) => {
      await withEndpoint();
      receiver.answer((nth) => (nth === 0 ? 404 : status));
      const delivery = await handOver(money);
      await untilState(delivery, 'waiting-slow');
      const before = await delivery.status();
      expect(await delivery.tryNow()).toMatchObject({
        outcome: 'pause-goes-on',
        verdict: { status },
        nextAttemptAt: before.nextAttemptAt,
      });
      const { state, attempts, fastFailures, slowSteps, nextAttemptAt, endsAt } = await delivery.status();
      expect({ state, attempts, fastFailures, slowSteps, nextAttemptAt, endsAt }).toEqual({
        state: 'waiting-slow',
        attempts: 2,
        fastFailures: 0,
        slowSteps: 1,
        nextAttemptAt: before.nextAttemptAt,
        endsAt: before.endsAt,
      });
      expect(receiver.received.map(({ headers }) => headers['x-webhook-attempt'])).toEqual(['1', '2']);
      await delivery.cancel();
    },
  );

  test('R83 from the fast ladder, a rejection of a money event starts no ceiling', async () => {
    await withEndpoint();
    receiver.answer((nth) => (nth === 0 ? { status: 503, headers: { 'retry-after': '3000' } } : 404));
    const delivery = await handOver(money);
    await untilState(delivery, 'waiting-fast');
    const { endsAt } = await delivery.status();
    expect(await delivery.tryNow()).toMatchObject({ outcome: 'pause-goes-on' });
    expect(await delivery.status()).toMatchObject({ state: 'waiting-fast', slowSteps: 0, endsAt });
    await delivery.cancel();
  });

  test('R83 another rejection ends the delivery', async () => {
    await withEndpoint();
    receiver.answer((nth) => (nth === 0 ? { status: 503, headers: { 'retry-after': '3000' } } : 404));
    const delivery = await handOver(notMoney);
    await untilState(delivery, 'waiting-fast');
    expect(await delivery.tryNow()).toMatchObject({
      outcome: 'failed',
      reason: 'rejected',
      verdict: { status: 404 },
    });
    expect(await delivery.result()).toMatchObject({ state: 'failed', reason: 'rejected', attempts: 2 });
  });

  test('R83 never passes the gate: a held delivery is told, and a refused try leaves the pause', async () => {
    const held = await handOver(money);
    await untilState(held, 'held-no-endpoint');
    expect(await held.tryNow()).toEqual({ outcome: 'held', reason: 'no-endpoint' });
    await withEndpoint();
    await held.result();
    receiver.answer(() => 404);
    const waiting = await handOver(money);
    await untilState(waiting, 'waiting-slow');
    await client.hooks.merchant(merchantId).removeEndpoint();
    await vi.waitFor(
      async () => expect(await waiting.tryNow()).toEqual({ outcome: 'held', reason: 'no-endpoint' }),
      { timeout: 30_000 },
    );
    expect(await waiting.status()).toMatchObject({ state: 'waiting-slow' });
    expect(await client.hooks.merchant(merchantId).describe()).toMatchObject({ held: 0 });
    await waiting.cancel();
  });

  test('R83 by signal, as from the Temporal UI', async () => {
    await withEndpoint();
    receiver.answer((nth) => (nth === 0 ? 404 : 200));
    const delivery = await handOver(money);
    await untilState(delivery, 'waiting-slow');
    await client.temporal.workflow.getHandle(delivery.workflowId).signal('tryNow');
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 2 });
  });
});
