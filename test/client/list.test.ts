import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { InvalidFilter, type DeliveryFilter, type ListedDelivery } from '../../src/client.ts';
import { FILTER_STATES } from '../../src/filter.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const money = { type: 'payment.status_changed', body: '{"status":"paid"}' };
const notMoney = { type: 'kyc.status_changed', body: '{}' };
const paymentId = `pay "1" \\ 'é' ${randomUUID()}`;

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
const merchantId = freshMerchant();
const withoutEndpoint = freshMerchant();
let startedAt: string;

beforeAll(async () => {
  client = await connectTestClient();
  workers = await startTestWorkers();
  receiver = await startReceiver((_, { headers }) => (headers['x-webhook-id'] === 'fine' ? 200 : 404));
  startedAt = new Date().toISOString();
  await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
  const outcomes = await client.hooks.deliverMany([
    { merchantId, webhookId: 'fine', ...notMoney, paymentId },
    { merchantId, webhookId: 'slow', ...money },
    { merchantId, webhookId: 'failed', ...notMoney },
    { merchantId, webhookId: 'cancelled', ...money },
    { merchantId, webhookId: 'redelivered', ...notMoney },
    { merchantId: withoutEndpoint, webhookId: 'held', ...money, paymentId },
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => 'fulfilled'));
  const redelivered = client.hooks.delivery(merchantId, 'redelivered');
  await redelivered.result();
  receiver.answer((_, { headers }) =>
    ['fine', 'redelivered'].includes(String(headers['x-webhook-id'])) ? 200 : 404,
  );
  await redelivered.redeliver();
  await client.hooks.delivery(merchantId, 'failed').result();
  await untilState(merchantId, 'cancelled', 'waiting-slow');
  await client.hooks.delivery(merchantId, 'cancelled').cancel();
  for (const webhookId of ['fine', 'cancelled', 'redelivered']) {
    await client.hooks.delivery(merchantId, webhookId).result();
  }
  await untilState(merchantId, 'slow', 'waiting-slow');
  await untilState(withoutEndpoint, 'held', 'held-no-endpoint');
});
afterAll(async () => {
  await client.hooks.delivery(merchantId, 'slow').cancel();
  await client.hooks.delivery(withoutEndpoint, 'held').cancel();
  await workers.shutdown();
  await client.close();
  await receiver.close();
});

async function untilState(merchant: string, webhookId: string, state: string): Promise<void> {
  await vi.waitFor(
    async () => expect(await client.hooks.delivery(merchant, webhookId).status()).toMatchObject({ state }),
    { timeout: 30_000 },
  );
}

async function listed(filter: DeliveryFilter): Promise<Record<string, string>> {
  const found = await Array.fromAsync(client.hooks.list(filter));
  return Object.fromEntries(found.map(({ webhookId, state }) => [webhookId, state]));
}

const all = {
  fine: 'delivered',
  slow: 'waiting-slow',
  failed: 'failed',
  cancelled: 'cancelled',
  redelivered: 'delivered',
};

describe('R90 deliveries are listed with the state that each itself says', () => {
  // Visibility is late: what is expected comes in a moment.
  const eventually = async (check: () => Promise<void>) => await vi.waitFor(check, { timeout: 30_000 });

  test('of a merchant, each once although one was started anew', async () => {
    await eventually(async () => expect(await listed({ merchantId })).toEqual(all));
  });

  test.each(FILTER_STATES)('in state %s', async (state) => {
    const group = { open: ['waiting-slow'], held: [] as string[] }[state as string] ?? [state];
    const expected = Object.fromEntries(Object.entries(all).filter(([, actual]) => group.includes(actual)));
    await eventually(async () => expect(await listed({ merchantId, state })).toEqual(expected));
  });

  test.each(['held', 'held-no-endpoint', 'open'] as const)('held is found as %s at once', async (state) => {
    const filter = { merchantId: withoutEndpoint, state };
    await eventually(async () => expect(await listed(filter)).toEqual({ held: 'held-no-endpoint' }));
  });

  test.each<[string, () => DeliveryFilter, string[]]>([
    ['event type', () => ({ type: 'kyc.status_changed' }), ['failed', 'fine', 'redelivered']],
    ['payment', () => ({ paymentId }), ['fine']],
    ['accepted since, RFC 3339', () => ({ since: startedAt }), Object.keys(all).toSorted()],
    ['accepted since, ago', () => ({ since: '7d' }), Object.keys(all).toSorted()],
    ['accepted until', () => ({ until: startedAt }), []],
    ['ended since', () => ({ endedSince: '1h' }), ['cancelled', 'failed', 'fine', 'redelivered']],
    ['ended until', () => ({ endedUntil: '1h' }), []],
    [
      'all at once',
      () => ({ type: 'kyc.status_changed', state: 'failed', since: '1h', endedSince: '1h' }),
      ['failed'],
    ],
  ])('by %s', async (_, filter, expected) => {
    await eventually(async () =>
      expect(Object.keys(await listed({ merchantId, ...filter() })).toSorted()).toEqual(expected),
    );
  });

  test.each(['plain', "a'b", 'a"b', '"', 'a\\', '\\n', 'a\nb', 'a\u0001b', 'a%b', 'é😀'])(
    'a payment id like %j',
    async (odd) => {
      const merchant = freshMerchant();
      const exact = `${odd}${merchant}`;
      const input = { merchantId: merchant, ...money };
      const accepted = await client.hooks.deliver({ ...input, webhookId: 'w1', paymentId: exact });
      const other = await client.hooks.deliver({ ...input, webhookId: 'w2', paymentId: `${exact}"` });
      await eventually(async () => {
        expect(await Array.fromAsync(client.hooks.list({ merchantId: merchant }))).toHaveLength(2);
        const found = await client.hooks.payment(exact).deliveries();
        expect(found.map(({ webhookId }) => webhookId)).toEqual(['w1']);
      });
      await accepted.delivery.cancel();
      await other.delivery.cancel();
    },
  );

  test('no more than asked for', async () => {
    const two = await Array.fromAsync(client.hooks.list({ merchantId }, { limit: 2 }));
    expect(two).toHaveLength(2);
    expect(await Array.fromAsync(client.hooks.list({ merchantId }, { limit: 0 }))).toEqual([]);
  });

  test('all of a payment, whatever its merchants, with their whole status', async () => {
    const summary = (each: ListedDelivery) => [each.merchantId, each.state, each.status?.attempts];
    await eventually(async () =>
      expect((await client.hooks.payment(paymentId).deliveries()).map(summary).toSorted()).toEqual(
        [
          [merchantId, 'delivered', 1],
          [withoutEndpoint, 'held-no-endpoint', 0],
        ].toSorted(),
      ),
    );
  });

  test.each([
    ['state', { state: 'sleeping' }],
    ['since', { since: 'yesterday' }],
    ['until', { until: '2026-01-31' }],
    ['merchantId', { merchantId: 'a" OR "b' }],
    ['type', { type: 'Paid' }],
    ['paymentId', { paymentId: '' }],
    ['paymentId', { paymentId: 'a\0b' }],
    ['colour', { colour: 'blue' }],
  ])('a filter with a wrong %s is refused', (field, filter) => {
    const list = () => client.hooks.list(filter as DeliveryFilter);
    expect(list).toThrow(InvalidFilter);
    expect(list).toThrow(field);
  });
});

describe('many at once', () => {
  test('R70 deliverMany keeps the order, and each has its own outcome', async () => {
    const merchant = freshMerchant();
    const webhooks = Array.from({ length: 40 }, (_, nth) => ({
      merchantId: merchant,
      webhookId: `w${nth % 30}`,
      type: 'x',
      body: nth === 7 ? 'no JSON' : nth === 31 ? '[]' : '{}',
    }));
    const outcomes = await client.hooks.deliverMany(webhooks, { concurrency: 3 });
    const words = outcomes.map((outcome) =>
      outcome.status === 'fulfilled' ? outcome.value.webhookId : (outcome.reason as { code: string }).code,
    );
    expect(words).toEqual(
      webhooks.map(({ webhookId }, nth) =>
        nth === 7 ? 'INVALID_WEBHOOK' : nth === 31 ? 'ID_CONFLICT' : webhookId,
      ),
    );
    const started = outcomes.flatMap((outcome) =>
      outcome.status === 'fulfilled' ? [outcome.value.started] : [],
    );
    expect(started.filter(Boolean)).toHaveLength(30);
    await Promise.all(
      outcomes.map(async (outcome) => {
        if (outcome.status === 'fulfilled') await outcome.value.delivery.cancel();
      }),
    );
  });

  test('of none, nothing', async () => {
    expect(await client.hooks.deliverMany([])).toEqual([]);
  });
});
