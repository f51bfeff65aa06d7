import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Notice } from '../../src/activities/types.ts';
import { OPERATOR_MERCHANT } from '../../src/contract.ts';
import { operatorWebhook } from '../../src/notices.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const patience = { timeout: 60_000, interval: 100 };
const HELD_AFTER_MS = 4_000;

let client: TestClient;
let workers: RunningWorkers | undefined;
let merchants: Receiver;
let operator: Receiver;

beforeAll(async () => {
  client = await connectTestClient();
  merchants = await startReceiver((_, { path }) => Number(path.split('/').at(-1)));
  operator = await startReceiver();
});
afterEach(async () => {
  await workers?.shutdown();
  workers = undefined;
});
afterAll(async () => {
  await client.close();
  await merchants.close();
  await operator.close();
});

type Hook = NonNullable<Parameters<typeof startTestWorkers>[0]>['notices'];

async function startWithNotices(hook: NonNullable<Hook>['hook']): Promise<void> {
  workers = await startTestWorkers({ notices: { hook, heldAfterMs: HELD_AFTER_MS } });
}

async function merchantThatAnswers(status: number): Promise<string> {
  const merchantId = freshMerchant();
  await client.hooks
    .merchant(merchantId)
    .setEndpoint({ url: `${merchants.url}${merchantId}/${status}`, secret: 'a secret of 20 bytes' });
  return merchantId;
}

async function deliverTo(merchantId: string, count = 1) {
  const webhook = { merchantId, type: 'kyc.status_changed', body: '{"card":"4111111111111111"}' };
  return await Promise.all(Array.from({ length: count }, async () => await client.hooks.deliver(webhook)));
}

/** What the operator's endpoint was told about a merchant. */
function toldOf(merchantId: string): Notice[] {
  return operator.received
    .map(({ body }) => JSON.parse(body.toString()) as Notice)
    .filter((notice) => notice.merchantId === merchantId);
}

describe('notices to the operator webhook', () => {
  test('tell when a breaker opens and closes, signed, each once', async () => {
    await startWithNotices('operator');
    await client.hooks
      .merchant(OPERATOR_MERCHANT)
      .setEndpoint({ url: operator.url, secret: 'the operator’s secret' });
    const merchantId = await merchantThatAnswers(500);
    const failed = await deliverTo(merchantId, 5);
    await vi.waitFor(() => expect(toldOf(merchantId)).toHaveLength(1), patience);
    // Their next attempts would open it again.
    for (const { delivery } of failed) await delivery.cancel();
    for (const { delivery } of failed) await delivery.result();
    await client.hooks.merchant(merchantId).resetBreaker({ by: 'ann', why: 'mended' });
    await vi.waitFor(() => expect(toldOf(merchantId)).toHaveLength(2), patience);
    const [opened, closed] = toldOf(merchantId);
    expect(opened).toMatchObject({
      type: 'hookladder.breaker_opened',
      samples: 5,
      failed: 5,
      until: expect.stringMatching(/Z$/),
    });
    expect(closed).toMatchObject({
      type: 'hookladder.breaker_closed',
      because: 'reset',
      by: 'ann',
      why: 'mended',
    });
    const { headers } = operator.received.find((each) => each.headers['x-webhook-id'] === opened?.id) ?? {};
    expect(headers?.['x-webhook-signature']).toMatch(/^[0-9a-f]{64}$/);
    // A breaker that is closed already does not close.
    await client.hooks.merchant(merchantId).resetBreaker();
    const failing = await merchantThatAnswers(404);
    await deliverTo(failing);
    await vi.waitFor(() => expect(toldOf(failing)).toHaveLength(1), patience);
    expect(toldOf(merchantId)).toHaveLength(2);
  });

  test('tell of each delivery that FAILED, what it was and why, without its body', async () => {
    await startWithNotices('operator');
    const merchantId = await merchantThatAnswers(404);
    const accepted = await deliverTo(merchantId, 3);
    await vi.waitFor(() => expect(toldOf(merchantId)).toHaveLength(3), patience);
    expect(new Set(toldOf(merchantId).map((notice) => 'webhookId' in notice && notice.webhookId))).toEqual(
      new Set(accepted.map(({ webhookId }) => webhookId)),
    );
    expect(toldOf(merchantId)[0]).toMatchObject({
      type: 'hookladder.delivery_failed',
      event: 'kyc.status_changed',
      money: false,
      attempts: 1,
      reason: 'rejected',
      lastAnswer: 'HTTP 404',
    });
    expect(JSON.stringify(toldOf(merchantId))).not.toContain('4111');
  });

  test('tell once of a merchant whose deliveries are held for long, however many they are', async () => {
    await startWithNotices('operator');
    const merchantId = freshMerchant();
    const accepted = await deliverTo(merchantId, 6);
    await vi.waitFor(() => expect(toldOf(merchantId)).not.toEqual([]), patience);
    await vi.waitFor(async () => {
      for (const { delivery } of accepted) {
        const { events } = await client.temporal.workflow
          .getHandle(`delivery:${merchantId}:${delivery.webhookId}`)
          .fetchHistory();
        const told = events?.filter(
          (event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'notify',
        );
        expect(told).toHaveLength(1);
      }
    }, patience);
    // Six at once may lie on both sides of a boundary.
    expect(toldOf(merchantId).length).toBeLessThanOrEqual(2);
    expect(toldOf(merchantId)[0]).toMatchObject({
      type: 'hookladder.delivery_held',
      reason: 'no-endpoint',
      heldSince: expect.stringMatching(/Z$/),
    });
    for (const { delivery } of accepted) await delivery.cancel();
  });

  test('are told of by no further notice, when the operator’s own endpoint fails', async () => {
    await startWithNotices('operator');
    operator.answer(() => 404);
    const merchantId = await merchantThatAnswers(404);
    await deliverTo(merchantId);
    await vi.waitFor(() => expect(toldOf(merchantId)).toHaveLength(1), patience);
    const notices = async () =>
      await Array.fromAsync(client.hooks.list({ merchantId: OPERATOR_MERCHANT, state: 'failed' }));
    await vi.waitFor(async () => expect(await notices()).toHaveLength(1), patience);
    expect(toldOf(OPERATOR_MERCHANT)).toEqual([]);
    operator.answer(() => 200);
  });

  test('are sent once, however often an event is told', async () => {
    await startWithNotices('operator');
    const merchantId = freshMerchant();
    const notice: Notice = {
      id: `delivery-failed.${randomUUID()}`,
      type: 'hookladder.breaker_opened',
      at: new Date().toISOString(),
      merchantId,
    };
    const hook = operatorWebhook(client.temporal);
    await Promise.all([hook(notice), hook(notice), hook(notice)]);
    await client.hooks.delivery(OPERATOR_MERCHANT, notice.id).result();
    await hook(notice);
    expect(toldOf(merchantId)).toHaveLength(1);
  });
});

describe('a hook of one’s own', () => {
  test('is told again under the same id after it has thrown', async () => {
    const told: unknown[] = [];
    await startWithNotices((notice) => {
      told.push(notice);
      if (told.length === 1) throw new Error('the pager is away');
    });
    const merchantId = await merchantThatAnswers(404);
    const [accepted] = await deliverTo(merchantId);
    expect(await accepted?.delivery.result()).toMatchObject({ state: 'failed' });
    expect(told).toHaveLength(2);
    expect(told[1]).toEqual(told[0]);
  });
});
