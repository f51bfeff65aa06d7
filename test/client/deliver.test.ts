import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { bundleWorkflowCode } from '@temporalio/worker';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  DeliveryNotFound,
  Hookladder,
  IdConflict,
  InvalidWebhook,
  NoWorker,
  TemporalUnavailable,
  type Webhook,
} from '../../src/client.ts';
import { deliveryWorkflowId } from '../../src/contract.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const money = { type: 'payment.status_changed', body: '{"status":"paid"}' };
const secret = 'a secret of 20 bytes';

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
  receiver.answer(() => 200);
});

async function exists(webhookId: string): Promise<boolean> {
  const handle = client.temporal.workflow.getHandle(deliveryWorkflowId(merchantId, webhookId));
  return await handle.describe().then(
    () => true,
    () => false,
  );
}

describe('R71 what is refused is refused before anything is stored', () => {
  const bytes = (...values: number[]) => Uint8Array.from(values);
  test.each<[field: string, remedy: string, change: Record<string, unknown>]>([
    ['merchantId', '1 to 64 characters', { merchantId: '' }],
    ['merchantId', '1 to 64 characters', { merchantId: 'm'.repeat(65) }],
    ['merchantId', '1 to 64 characters', { merchantId: 'a:b' }],
    ['merchantId', 'must be a string', { merchantId: 7 }],
    ['webhookId', '1 to 128 characters', { webhookId: '' }],
    ['webhookId', '1 to 128 characters', { webhookId: 'w'.repeat(129) }],
    ['webhookId', '1 to 128 characters', { webhookId: 'with space' }],
    ['webhookId', '1 to 128 characters', { webhookId: 'line\n' }],
    ['paymentId', 'at most 128 characters', { paymentId: 'p'.repeat(129) }],
    ['paymentId', 'must not be empty', { paymentId: '' }],
    ['paymentId', 'must not contain NUL', { paymentId: 'p\0' }],
    ['type', '1 to 128 characters', { type: '' }],
    ['type', '1 to 128 characters', { type: 't'.repeat(129) }],
    ['type', '1 to 128 characters', { type: 'Payment.Paid' }],
    ['body', 'must be JSON', { body: '' }],
    ['body', 'must be JSON', { body: '{"a":' }],
    ['body', 'must be JSON', { body: 'paid' }],
    ['body', 'must be a string', { body: { status: 'paid' } }],
    ['body', 'byte order mark', { body: '\uFEFF{}' }],
    ['body', 'byte order mark', { body: bytes(0xef, 0xbb, 0xbf, 0x7b, 0x7d) }],
    ['body', 'valid UTF-8', { body: bytes(0x22, 0xff, 0x22) }],
    ['body', 'valid UTF-8', { body: '"\ud83e"' }],
    ['body', '262144 bytes', { body: JSON.stringify('x'.repeat(256 * 1024 - 1)) }],
    ['body', '262144 bytes', { body: JSON.stringify('é'.repeat(128 * 1024)) }],
    ['colour', 'is not known', { colour: 'blue' }],
    ['webhookId', 'must be a string', { webhookId: undefined }],
  ])('%s: %s', async (field, remedy, change) => {
    const webhookId = `w-${randomUUID()}`;
    const webhook = { merchantId, webhookId, ...money, ...change } as Webhook;
    const refusal = await client.hooks.deliver(webhook).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(InvalidWebhook);
    expect(refusal).toMatchObject({
      code: 'INVALID_WEBHOOK',
      problems: [{ field, message: expect.stringContaining(remedy) }],
    });
    expect(await exists(webhookId)).toBe(false);
  });

  test.each([undefined, null, 'paid', 7])('no webhook at all: %s', async (webhook) => {
    await expect(client.hooks.deliver(webhook as unknown as Webhook)).rejects.toBeInstanceOf(InvalidWebhook);
  });

  test('an option of the client that is misspelt is refused', () => {
    const options = { client: client.temporal, allowHtp: true };
    expect(() => new Hookladder(options)).toThrow(/unknown option allowHtp; known are .*allowHttp/);
  });

  test('the refusal prints no body', async () => {
    const refusal = await client.hooks
      .deliver({ merchantId, type: 'x', body: '4111-1111-1111-1111 is no JSON' })
      .catch((error: unknown) => error);
    expect(JSON.stringify(refusal) + String(refusal)).not.toContain('4111');
  });
});

describe('with workers', () => {
  let workers: RunningWorkers;
  beforeAll(async () => {
    workers = await startTestWorkers();
  });
  afterAll(async () => {
    await workers.shutdown();
  });
  beforeEach(async () => {
    await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret });
  });

  test.each([
    ['256 KiB to the byte', JSON.stringify('x'.repeat(256 * 1024 - 2))],
    ['256 KiB of quotes, which double in JSON', JSON.stringify('"'.repeat(128 * 1024 - 1))],
    ['deeply nested', '['.repeat(50_000) + ']'.repeat(50_000)],
    ['{}', '{}'],
    ['a bare number', '0'],
    ['odd white space', ' \t\n\r{ "a" : 1 }\n'],
    ['a byte order mark inside a string', '{"a":"\uFEFF"}'],
  ])('R71 D4 accepted and sent byte for byte: %s', async (_, body) => {
    const { delivery } = await client.hooks.deliver({ merchantId, type: 'x', body });
    expect(await delivery.result()).toMatchObject({ state: 'delivered' });
    expect(receiver.received.at(-1)?.body.equals(Buffer.from(body))).toBe(true);
  });

  test('R70 without an id one is made (UUIDv7)', async () => {
    const { webhookId, started } = await client.hooks.deliver({ merchantId, ...money });
    expect(started).toBe(true);
    expect(webhookId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  test('R70 D2 twice at once: one chain, and one caller is told', async () => {
    const webhook = { merchantId, webhookId: 'w1', ...money };
    const accepted = await Promise.all([client.hooks.deliver(webhook), client.hooks.deliver(webhook)]);
    expect(accepted.map(({ started }) => started).toSorted()).toEqual([false, true]);
    await accepted[0].delivery.result();
    expect(receiver.received.filter(({ headers }) => headers['x-webhook-id'] === 'w1')).toHaveLength(1);
  });

  test('R70 D2 again during a pause, after delivered and after FAILED: nothing starts and the caller is told how it stands', async () => {
    const again = async (webhookId: string, webhook = money) =>
      await client.hooks.deliver({ merchantId, webhookId, ...webhook });
    receiver.answer(() => 404);
    const { delivery: waiting } = await again('w-open');
    await vi.waitFor(async () => expect(await waiting.status()).toMatchObject({ state: 'waiting-slow' }), {
      timeout: 30_000,
    });
    expect(await again('w-open')).toMatchObject({ started: false, existing: 'open' });
    await waiting.cancel();
    await waiting.result();
    expect(await again('w-open')).toMatchObject({ started: false, existing: 'cancelled' });
    const rejected = { type: 'kyc.status_changed', body: '{}' };
    await (await again('w-failed', rejected)).delivery.result();
    expect(await again('w-failed', rejected)).toMatchObject({ started: false, existing: 'failed' });
    receiver.answer(() => 200);
    await (await again('w-delivered')).delivery.result();
    expect(await again('w-delivered')).toMatchObject({ started: false, existing: 'delivered' });
  });

  test.each([
    ['body', { body: '{"status":"refunded"}' }],
    ['body that differs in white space only', { body: '{"status": "paid"}' }],
    ['type', { type: 'refund.completed' }],
  ])('R70 D2 another %s under the same id is a conflict', async (_, change) => {
    const webhook = { merchantId, webhookId: 'w1', ...money };
    await client.hooks.deliver(webhook);
    const conflict = await client.hooks.deliver({ ...webhook, ...change }).catch((error: unknown) => error);
    expect(conflict).toBeInstanceOf(IdConflict);
    expect(conflict).toMatchObject({ code: 'ID_CONFLICT', message: expect.not.stringContaining('refunded') });
  });

  test('R71 a merchant id that differs only in case is another merchant', async () => {
    const { delivery } = await client.hooks.deliver({ merchantId: merchantId.toUpperCase(), ...money });
    await vi.waitFor(
      async () => expect(await delivery.status()).toMatchObject({ state: 'held-no-endpoint' }),
      { timeout: 30_000 },
    );
    await delivery.cancel();
  });

  test('an unknown delivery is a typed error', async () => {
    const unknown = client.hooks.delivery(merchantId, 'never');
    const asks = [
      async () => await unknown.status(),
      async () => await unknown.result(),
      async () => await unknown.tryNow(),
      async () => await unknown.cancel(),
    ];
    for (const ask of asks) await expect(ask()).rejects.toBeInstanceOf(DeliveryNotFound);
  });

  test('a terminated delivery reads as cancelled, with the reason', async () => {
    receiver.answer(() => 404);
    const { delivery } = await client.hooks.deliver({ merchantId, ...money });
    await vi.waitFor(async () => expect(await delivery.status()).toMatchObject({ state: 'waiting-slow' }), {
      timeout: 30_000,
    });
    await client.temporal.workflow.getHandle(delivery.workflowId).terminate();
    expect(await delivery.status()).toMatchObject({ state: 'cancelled', reason: 'terminated', attempts: 1 });
  });
});

test('R90 a delivery that was started with an execution timeout, and met it, reads as failed', async () => {
  const workers = await startTestWorkers();
  const webhook = { merchantId, webhookId: 'w1', ...money };
  await client.temporal.workflow.start('delivery', {
    workflowId: deliveryWorkflowId(merchantId, 'w1'),
    taskQueue: 'hookladder-deliveries',
    args: [webhook],
    workflowExecutionTimeout: '2 seconds',
  });
  const delivery = client.hooks.delivery(merchantId, 'w1');
  expect(await delivery.result()).toMatchObject({ state: 'failed', reason: 'timed-out' });
  expect(await delivery.status()).toMatchObject({ state: 'failed', reason: 'timed-out' });
  expect(await client.hooks.deliver(webhook)).toMatchObject({ started: false, existing: 'failed' });
  await workers.shutdown();
});

describe('without', () => {
  test('a worker, handing over works and asking for the state is a typed error', async () => {
    const hooks = new Hookladder({ client: client.temporal, connectTimeoutMs: 1_000 });
    const { delivery, started } = await hooks.deliver({ merchantId, ...money });
    expect(started).toBe(true);
    await expect(delivery.status()).rejects.toBeInstanceOf(NoWorker);
    await client.temporal.workflow.getHandle(delivery.workflowId).terminate();
  });

  test('R50 R53 a worker, changes that take each other back are both durable: the last one counts', async () => {
    const merchant = client.hooks.merchant(merchantId);
    expect(await merchant.setEndpoint({ url: receiver.url, secret })).toMatchObject({ applied: false });
    await merchant.pause({ by: 'ann' });
    await merchant.resume();
    await merchant.removeEndpoint();
    const workers = await startTestWorkers();
    onTestFinished(() => workers.shutdown());
    await vi.waitFor(
      async () => {
        const { gate, transitions = [] } = (await merchant.breaker()) ?? {};
        expect(transitions.map(({ event }) => event)).toEqual([
          'address-set',
          'paused',
          'resumed',
          'address-removed',
        ]);
        expect(gate).not.toHaveProperty('paused');
        expect(gate).not.toHaveProperty('endpoint');
      },
      { timeout: 30_000 },
    );
  });

  test('a worker that can run it, asking for the state waits until the bad deploy is replaced', async () => {
    // Code without the workflows.
    const workflowsPath = fileURLToPath(new URL('../../src/policy/retry-after.ts', import.meta.url));
    const bad = await startTestWorkers({ workflowBundle: await bundleWorkflowCode({ workflowsPath }) });
    const { delivery } = await client.hooks.deliver({ merchantId, ...money });
    const handle = client.temporal.workflow.getHandle(delivery.workflowId);
    await vi.waitFor(
      async () => {
        const { events } = await handle.fetchHistory();
        expect(events?.some((event) => event.workflowTaskFailedEventAttributes)).toBe(true);
      },
      { timeout: 30_000 },
    );
    const status = new Hookladder({ client: client.temporal, connectTimeoutMs: 50_000 })
      .delivery(merchantId, delivery.webhookId)
      .status();
    await bad.shutdown();
    const good = await startTestWorkers();
    expect(await status).toMatchObject({ state: expect.any(String) });
    await handle.terminate();
    await good.shutdown();
  });

  test('Temporal, handing over is a typed error after the time limit', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    for (const address of ['127.0.0.1:1', `127.0.0.1:${port}`]) {
      const connection = Connection.lazy({ address });
      const hooks = new Hookladder({ client: new Client({ connection }), connectTimeoutMs: 500 });
      const refusal = await hooks.deliver({ merchantId, ...money }).catch((error: unknown) => error);
      expect(refusal).toBeInstanceOf(TemporalUnavailable);
      expect(refusal).toMatchObject({ code: 'TEMPORAL_UNAVAILABLE' });
      await connection.close();
    }
    silent.close();
  });
});
