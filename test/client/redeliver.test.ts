import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { InvalidWebhook, type DeliveryHandle } from '../../src/client.ts';
import { deliveryWorkflowId } from '../../src/contract.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const body = '{"status": "paid", "note":"😀 \\u0000"}';
const money = { type: 'payment.status_changed', body, paymentId: 'pay_1' };
const notMoney = { type: 'kyc.status_changed', body: '{}' };
const ann = { by: 'ann', why: 'their deploy is fixed' };

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
let merchantId: string;

beforeAll(async () => {
  client = await connectTestClient();
  workers = await startTestWorkers();
  receiver = await startReceiver();
});
afterAll(async () => {
  await workers.shutdown();
  await client.close();
  await receiver.close();
});
beforeEach(async () => {
  merchantId = freshMerchant();
  receiver.received.length = 0;
  receiver.answer(() => 200);
  await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
});

async function handOver(webhook: typeof notMoney = money): Promise<DeliveryHandle> {
  return (await client.hooks.deliver({ merchantId, webhookId: 'w1', ...webhook })).delivery;
}

async function ended(answer: number, webhook: typeof notMoney): Promise<DeliveryHandle> {
  receiver.answer(() => answer);
  const delivery = await handOver(webhook);
  await delivery.result();
  receiver.answer(() => 200);
  return delivery;
}

async function cancelled(): Promise<DeliveryHandle> {
  const delivery = await asleep();
  await delivery.cancel();
  await delivery.result();
  receiver.answer(() => 200);
  return delivery;
}

async function asleep(): Promise<DeliveryHandle> {
  receiver.answer(() => 404);
  const delivery = await handOver();
  await untilState(delivery, 'waiting-slow');
  return delivery;
}

async function untilState(delivery: DeliveryHandle, state: string): Promise<void> {
  await vi.waitFor(async () => expect(await delivery.status()).toMatchObject({ state }), {
    timeout: 30_000,
    interval: 50,
  });
}

async function runs(delivery: DeliveryHandle): Promise<string[]> {
  const found = client.temporal.workflow.list({ query: `WorkflowId = "${delivery.workflowId}"` });
  return await Array.fromAsync(found, ({ runId }) => runId);
}

/** Timers that run now, in one place only: a second chain would have one of its own. */
async function pendingTimers(delivery: DeliveryHandle): Promise<number> {
  const { events } = await client.temporal.workflow.getHandle(delivery.workflowId).fetchHistory();
  const count = (name: string) =>
    (events ?? []).filter((event) => name in event && event[name as never]).length;
  return (
    count('timerStartedEventAttributes') -
    count('timerFiredEventAttributes') -
    count('timerCanceledEventAttributes')
  );
}

describe('R81 D3 redelivery has three outcomes', () => {
  test('FAILED begins anew: same id, same body, fresh budgets and record age, and who asked', async () => {
    const delivery = await ended(404, notMoney);
    const first = await delivery.status();
    expect(await delivery.redeliver(ann)).toMatchObject({ outcome: 'started' });
    const again = await delivery.result();
    expect(again).toMatchObject({
      state: 'delivered',
      attempts: 1,
      fastFailures: 0,
      firstAcceptedAt: first.acceptedAt,
      interventions: [{ what: 'redeliver', ...ann, at: again.acceptedAt }],
    });
    expect(Date.parse(again.acceptedAt)).toBeGreaterThan(Date.parse(first.endedAt ?? ''));
    const [one, two, ...more] = receiver.received;
    expect(more).toEqual([]);
    expect(two?.body.equals(one?.body ?? Buffer.of())).toBe(true);
    for (const header of ['x-webhook-id', 'x-webhook-attempt', 'x-webhook-created-at']) {
      expect(two?.headers[header]).toBe(one?.headers[header]);
    }
  });

  test('R61 the time of acceptance stays the first over two redeliveries', async () => {
    const delivery = await ended(404, notMoney);
    receiver.answer(() => 404);
    await delivery.redeliver();
    await delivery.result();
    receiver.answer(() => 200);
    await delivery.redeliver();
    await delivery.result();
    expect(new Set(receiver.received.map(({ headers }) => headers['x-webhook-created-at'])).size).toBe(1);
  });

  test('R24 R81 a slow ladder and its ceiling begin anew too', async () => {
    const delivery = await cancelled();
    receiver.answer(() => 404);
    await delivery.redeliver({ force: true });
    await untilState(delivery, 'waiting-slow');
    expect(await delivery.status()).toMatchObject({ attempts: 1, slowSteps: 1 });
    await delivery.cancel();
  });

  test('pressed five times at once: one chain, and each is told', async () => {
    const delivery = await ended(404, notMoney);
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    receiver.hold(held);
    const outcomes = await Promise.all(
      Array.from({ length: 5 }, async () => (await delivery.redeliver()).outcome),
    );
    release();
    expect(outcomes.toSorted()).toEqual(['open', 'open', 'open', 'open', 'started']);
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    expect(receiver.received).toHaveLength(2);
    await vi.waitFor(async () => expect(await runs(delivery)).toHaveLength(2), { timeout: 30_000 });
  });

  test('asleep: told to try now, which fails and lets the pause go on', async () => {
    const delivery = await asleep();
    const { nextAttemptAt } = await delivery.status();
    for (const attempts of [2, 3]) {
      expect(await delivery.redeliver(ann)).toMatchObject({
        outcome: 'open',
        tryNow: { outcome: 'pause-goes-on', verdict: { status: 404 }, nextAttemptAt },
      });
      expect(await delivery.status()).toMatchObject({ attempts, slowSteps: 1, nextAttemptAt });
    }
    expect(await delivery.status()).toMatchObject({ interventions: [{ what: 'try-now', ...ann }, {}] });
    expect(await pendingTimers(delivery)).toBe(1);
    expect(await runs(delivery)).toHaveLength(1);
    await delivery.cancel();
  });

  test('asleep: told to try now, which delivers', async () => {
    const delivery = await asleep();
    receiver.answer(() => 200);
    expect(await delivery.redeliver()).toMatchObject({ outcome: 'open', tryNow: { outcome: 'delivered' } });
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 2 });
  });

  test('held: told that it stays held', async () => {
    await client.hooks.merchant(merchantId).removeEndpoint();
    const delivery = await handOver();
    await untilState(delivery, 'held-no-endpoint');
    expect(await delivery.redeliver()).toEqual({
      outcome: 'open',
      tryNow: { outcome: 'held', reason: 'no-endpoint' },
    });
    expect(await pendingTimers(delivery)).toBe(1);
    expect(receiver.received).toEqual([]);
    await delivery.cancel();
  });

  test('with a POST in flight: told that it is attempting', async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    receiver.hold(held);
    const delivery = await handOver();
    await vi.waitFor(() => expect(receiver.received).toHaveLength(1), { timeout: 30_000 });
    expect(await delivery.redeliver({ force: true })).toEqual({
      outcome: 'open',
      tryNow: { outcome: 'already-attempting' },
    });
    release();
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    expect(receiver.received).toHaveLength(1);
  });

  test('delivered: needs force', async () => {
    const delivery = await ended(200, money);
    expect(await delivery.redeliver()).toEqual({ outcome: 'needs-force', existing: 'delivered' });
    expect(receiver.received).toHaveLength(1);
    expect(await delivery.redeliver({ force: true })).toMatchObject({ outcome: 'started' });
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    expect(receiver.received.map((request) => request.body.toString())).toEqual([body, body]);
  });

  test('cancelled, and terminated: needs force', async () => {
    const delivery = await cancelled();
    expect(await delivery.redeliver()).toEqual({ outcome: 'needs-force', existing: 'cancelled' });
    receiver.answer(() => 404);
    await delivery.redeliver({ force: true });
    await untilState(delivery, 'waiting-slow');
    await client.temporal.workflow.getHandle(delivery.workflowId).terminate();
    expect(await delivery.redeliver()).toEqual({ outcome: 'needs-force', existing: 'cancelled' });
  });

  test('a redelivered webhook is still the one that was handed over (R70)', async () => {
    const delivery = await ended(404, notMoney);
    await delivery.redeliver();
    await delivery.result();
    const again = await client.hooks.deliver({ merchantId, webhookId: 'w1', ...notMoney });
    expect(again).toMatchObject({ started: false, existing: 'delivered' });
  });

  test('one that a stranger started with a wrong input is not started again', async () => {
    const workflowId = deliveryWorkflowId(merchantId, 'w1');
    await client.temporal.workflow
      .execute('delivery', { workflowId, taskQueue: 'hookladder-deliveries', args: [{ merchantId }] })
      .catch(() => undefined);
    await expect(client.hooks.delivery(merchantId, 'w1').redeliver()).rejects.toBeInstanceOf(InvalidWebhook);
  });
});

test('R82 a cancellation says who and why, in the status and in words', async () => {
  const delivery = await asleep();
  await delivery.cancel(ann);
  expect(await delivery.result()).toMatchObject({
    state: 'cancelled',
    interventions: [{ what: 'cancel', ...ann }],
  });
  const { raw } = await client.temporal.workflow.getHandle(delivery.workflowId).describe();
  expect(raw.workflowExecutionInfo?.status).toBe(4);
});
