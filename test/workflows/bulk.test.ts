import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { begun, counted, further, noCounts, progressInWords, type BulkSkip } from '../../src/bulk.ts';
import {
  BulkNotFound,
  InvalidFilter,
  type BulkHandle,
  type BulkOrder,
  type BulkProgress,
} from '../../src/client.ts';
import { failMany, handOverMany, untilListed } from '../support/many-deliveries.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';
import type { RunningWorkers } from '../../src/workers.ts';

const secret = 'a secret of 20 bytes';
const ann = { by: 'ann', why: 'their deploy is fixed' };
/** Small enough that there are several pages and several runs. */
const inParts = { pageSize: 3, pagesPerRun: 1 };

let client: TestClient;
let receiver: Receiver;
let merchantId: string;
beforeAll(async () => {
  client = await connectTestClient();
  receiver = await startReceiver();
});
afterAll(async () => {
  await client.close();
  await receiver.close();
});
beforeEach(() => {
  merchantId = freshMerchant();
  receiver.received.length = 0;
});

async function give(order: BulkOrder, settings: Partial<Parameters<typeof client.hooks.bulk>[0]> = {}) {
  return await client.hooks.bulk({ ...order, perSecond: 20, ...ann, ...inParts, ...settings });
}

async function progressed(command: BulkHandle, done: number): Promise<BulkProgress> {
  let progress: BulkProgress | undefined;
  await vi.waitFor(
    async () => {
      progress = await command.progress();
      expect(progress.done).toBeGreaterThanOrEqual(done);
    },
    { timeout: 60_000, interval: 100 },
  );
  return progress as BulkProgress;
}

const redeliverAll = (): BulkOrder => ({ command: 'redeliver', filter: { merchantId } });
const cancelAll = (): BulkOrder => ({ command: 'cancel', filter: { merchantId } });

describe('with workers', () => {
  let workers: RunningWorkers;
  beforeAll(async () => {
    workers = await startTestWorkers();
  });
  afterAll(async () => {
    await workers.shutdown();
  });

  test('a dry run counts and starts nothing', async () => {
    await failMany(client, receiver, merchantId, 5);
    const dryRun = await give(redeliverAll(), { dryRun: true });
    const { done, examples } = await dryRun.result();
    expect(done).toBe(5);
    expect(examples.toSorted()).toEqual([0, 1, 2, 3, 4].map((nth) => `delivery:${merchantId}:w${nth}`));
    expect(receiver.received).toHaveLength(5);
    expect((await give(redeliverAll())).id).not.toBe(dryRun.id);
  });

  test('stopped in the middle, the same command goes on with the rest', async () => {
    await failMany(client, receiver, merchantId, 8);
    const command = await give(redeliverAll(), { perSecond: 1, pageSize: 2 });
    await progressed(command, 2);
    await command.stop();
    const stopped = await command.result();
    expect(stopped.endedAt).toBeUndefined();
    expect(stopped.done).toBeLessThan(8);
    const rest = await give(redeliverAll());
    expect(await rest.result()).toMatchObject({ done: 8 - stopped.done });
    await untilListed(client, merchantId, 'ExecutionStatus = "Completed"', 8);
  });

  test('leaves alone what a stranger started with a wrong input', async () => {
    await client.temporal.workflow
      .execute('delivery', {
        workflowId: `delivery:${merchantId}:w0`,
        taskQueue: 'hookladder-deliveries',
        args: [{ merchantId }],
        searchAttributes: { WebhookMerchant: [merchantId] },
      })
      .catch(() => undefined);
    await untilListed(client, merchantId, 'ExecutionStatus = "Failed"', 1);
    expect(await (await give(redeliverAll())).result()).toMatchObject({ done: 0, skipped: { invalid: 1 } });
  });

  test('R82 of a state only those that are in it are cancelled', async () => {
    receiver.answer(() => 404);
    await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret });
    const paymentId = merchantId;
    await handOverMany(client, merchantId, 2, { type: 'refund.completed', paymentId });
    await untilListed(client, merchantId, 'WebhookState = "waiting-slow"', 2);
    const held = { merchantId: freshMerchant(), webhookId: 'held', type: 'x', body: '{}', paymentId };
    const { delivery } = await client.hooks.deliver(held);
    await vi.waitFor(
      async () => expect(await delivery.status()).toMatchObject({ state: 'held-no-endpoint' }),
      { timeout: 30_000 },
    );
    await untilListed(client, held.merchantId, 'ExecutionStatus = "Running"', 1);
    const order: BulkOrder = { command: 'cancel', filter: { paymentId, state: 'held' } };
    expect(await (await give(order, { dryRun: true })).result()).toMatchObject({ done: 1 });
    expect(await (await give(order)).result()).toMatchObject({ done: 1 });
    expect(await delivery.result()).toMatchObject({ state: 'cancelled' });
    expect(await (await give(cancelAll())).result()).toMatchObject({ done: 2 });
  });

  test('R49 D10 one command resets the breakers that opened since a time, and no others', async () => {
    receiver.answer(() => 500);
    const open = async (): Promise<string> => {
      merchantId = freshMerchant();
      await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret });
      await handOverMany(client, merchantId, 5, { type: 'x' });
      await vi.waitFor(
        async () =>
          expect((await client.hooks.merchant(merchantId).breaker())?.gate.circuit.state).toBe('open'),
        { timeout: 30_000 },
      );
      return merchantId;
    };
    const circuitOf = async (merchant: string) => (await client.hooks.merchant(merchant).breaker())?.gate;
    const [before, after] = [await open(), await open()];
    const openedSince = new Date((await circuitOf(after))?.openedAt ?? 0).toISOString();
    await vi.waitFor(
      async () => {
        const query = `WebhookBreaker = "open" AND WebhookMerchant IN ("${before}", "${after}")`;
        expect((await client.temporal.workflow.count(query)).count).toBe(2);
      },
      { timeout: 30_000 },
    );
    // Well again: otherwise what the reset lets go opens it anew at once.
    receiver.answer(() => 200);
    const command = await give({ command: 'reset-breakers', filter: { openedSince } });
    expect((await command.result()).done).toBe(1);
    await vi.waitFor(async () => expect((await circuitOf(after))?.circuit.state).toBe('closed'), {
      timeout: 30_000,
    });
    expect((await circuitOf(after))?.openedAt).toBeUndefined();
    expect((await circuitOf(before))?.circuit.state).toBe('open');
    const status = await client.hooks.merchant(after).breaker();
    expect(status?.transitions.findLast(({ event }) => event === 'reset')).toMatchObject(ann);
    for (const merchant of [before, after]) {
      merchantId = merchant;
      await (await give({ command: 'cancel', filter: { merchantId } })).result();
    }
  });

  test.each<[string, unknown[]]>([
    ['nothing', []],
    ['text', ['all']],
    ['no filter', [{ command: 'cancel' }]],
  ])('a wrong command of a stranger fails with words: %s', async (_, args) => {
    const workflowId = `bulk:${merchantId}`;
    await client.temporal.workflow.start('bulk', { workflowId, taskQueue: 'hookladder-merchants', args });
    const wrong = client.hooks.bulkCommand(workflowId);
    await expect(wrong.result()).rejects.toBeInstanceOf(InvalidFilter);
    await expect(wrong.progress()).rejects.toBeInstanceOf(InvalidFilter);
    await vi.waitFor(
      async () => {
        const listed = await Array.fromAsync(client.hooks.bulkCommands({ limit: 10 }));
        expect(listed).toContainEqual({ id: workflowId });
      },
      { timeout: 30_000 },
    );
  });

  test('the id of a delivery is no bulk command: it is neither shown nor stopped', async () => {
    await client.hooks.deliver({ merchantId, webhookId: 'w', type: 'x', body: '{}' });
    const delivery = client.hooks.delivery(merchantId, 'w');
    const wrong = client.hooks.bulkCommand(delivery.workflowId);
    await expect(wrong.progress()).rejects.toBeInstanceOf(BulkNotFound);
    await expect(wrong.result()).rejects.toBeInstanceOf(BulkNotFound);
    await expect(wrong.stop()).rejects.toBeInstanceOf(BulkNotFound);
    expect(await delivery.status()).not.toMatchObject({ state: 'cancelled' });
  });
});

describe('a wrong command is refused', () => {
  test.each<[string, unknown]>([
    ['state', { command: 'redeliver', filter: { state: 'delivered' } }],
    ['state', { command: 'cancel', filter: { state: 'failed' } }],
    ['openedSince', { command: 'reset-breakers', filter: { openedSince: 'noon' } }],
    ['command', { command: 'delete', filter: {} }],
    ['perSecond', { command: 'cancel', filter: {}, perSecond: 1_000 }],
    ['filter', { command: 'cancel' }],
  ])('by its %s', async (field, order) => {
    const refusal = await client.hooks.bulk(order as never).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(InvalidFilter);
    expect(String(refusal)).toContain(field);
  });
});

test('counts do not depend on how the targets fall into pages', () => {
  const outcome = fc.constantFrom<'done' | BulkSkip>('done', 'superseded', 'ended', 'invalid');
  fc.assert(
    fc.property(fc.array(fc.array(outcome)), (pages) => {
      const start = begun({ command: 'redeliver', filter: {} }, 0);
      const page = (outcomes: readonly ('done' | BulkSkip)[]) =>
        outcomes.reduce((counts, each, nth) => counted(counts, `w${nth}`, each), noCounts);
      const inPages = pages.reduce((sum, each) => further(sum, each.length, page(each)), start);
      const { done, skipped, seen } = further(start, pages.flat().length, page(pages.flat()));
      expect(inPages).toMatchObject({ done, skipped, seen });
      expect(done + Object.values(skipped).reduce((sum, each) => sum + each, 0)).toBe(seen);
      expect(inPages.examples.length).toBeLessThanOrEqual(10);
      expect(progressInWords(inPages)).toContain(`redelivered ${done}`);
    }),
  );
});
