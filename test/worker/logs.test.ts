import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, type TestClient } from '../support/stack.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';

const CARD = '4111111111111111';
const SECRET = 'whose-secret-is-it-anyway';
const HEADER = 'Bearer of-a-credential';
const body = JSON.stringify({ card: CARD, status: 'paid' });
const patience = { timeout: 60_000, interval: 200 };

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly merchantId?: string;
  readonly webhookId?: string;
  readonly [field: string]: unknown;
}

let client: TestClient;
let receiver: Receiver;
let worker: WorkerProcess;

beforeAll(async () => {
  client = await connectTestClient({ fast: { firstPauseMs: 50 } });
  // One that gives everything back that it was given.
  receiver = await startReceiver((nth, request) => ({
    status: statusesOf(request.path)[nth] ?? 200,
    body: JSON.stringify({ headers: request.headers, body: request.body.toString() }),
  }));
  worker = await startWorkerProcess({ HOOKLADDER_LOG_LEVEL: 'trace' });
});
afterAll(async () => {
  await worker.terminate();
  await client.close();
  await receiver.close();
});

function statusesOf(path: string): number[] {
  return (path.split('/').at(-1) ?? '').split('-').map(Number);
}

/** Hands over one webhook to a merchant that answers so, one after the other, and waits for its end. */
async function deliver(...statuses: number[]) {
  const merchantId = freshMerchant();
  await client.hooks.merchant(merchantId).setEndpoint({
    url: `${receiver.url}${merchantId}/${statuses.join('-')}`,
    secret: SECRET,
    headers: { Authorization: HEADER },
  });
  const { delivery, webhookId } = await client.hooks.deliver({ merchantId, type: 'x.y', body });
  return { merchantId, webhookId, status: await delivery.result() };
}

function linesOf(merchantId: string, msg: string): Line[] {
  return worker.lines
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line)
    .filter((line) => line.merchantId === merchantId && line.msg === msg);
}

describe('what a worker logs', () => {
  test('is one line for each attempt and each transition, with merchant and webhook, at levels that make sense', async () => {
    const { merchantId, webhookId } = await deliver(503, 500, 200);
    await vi.waitFor(() => {
      const attempts = linesOf(merchantId, 'attempt');
      expect(attempts).toMatchObject([
        { level: 30, webhookId, webhookAttempt: 1, verdict: 'server-error', status: 503 },
        { level: 30, webhookId, webhookAttempt: 2, verdict: 'server-error', status: 500 },
        { level: 30, webhookId, webhookAttempt: 3, verdict: 'delivered', status: 200 },
      ]);
      expect(linesOf(merchantId, 'delivery')).toMatchObject([
        { level: 30, webhookId, state: 'waiting-fast', attempts: 1 },
        { level: 30, webhookId, state: 'waiting-fast', attempts: 2 },
        { level: 30, webhookId, state: 'delivered', attempts: 3 },
      ]);
    }, patience);
  });

  test('warns of a delivery that FAILED, in one line, and of a breaker that opened', async () => {
    const { merchantId, webhookId, status } = await deliver(400);
    expect(status).toMatchObject({
      state: 'failed',
      lastVerdict: { excerpt: expect.stringContaining(CARD) },
    });
    const dead = await deliver(...Array.from({ length: 3 }, () => 500));
    const more = Array.from({ length: 8 }, () => ({ merchantId: dead.merchantId, type: 'x.y', body }));
    receiver.answer(() => 500);
    await client.hooks.deliverMany(more);
    await vi.waitFor(() => {
      expect(linesOf(merchantId, 'delivery')).toMatchObject([
        { level: 40, webhookId, state: 'failed', reason: 'rejected', attempts: 1 },
      ]);
      expect(linesOf(merchantId, 'Workflow failed')).toEqual([]);
      const opened = linesOf(dead.merchantId, 'merchant').filter(({ event }) => event === 'opened');
      expect(opened).toMatchObject([{ level: 40 }]);
    }, patience);
    await client.hooks.merchant(dead.merchantId).pause({ by: 'ann' });
    await vi.waitFor(() => {
      const paused = linesOf(dead.merchantId, 'merchant').filter(({ event }) => event === 'paused');
      expect(paused).toMatchObject([{ level: 30, by: 'ann' }]);
    }, patience);
  });

  test('is never a body, what a receiver answered, a secret or the value of a header, at any level', () => {
    expect(worker.lines.length).toBeGreaterThan(20);
    const bytes = Buffer.from(CARD).join(', ');
    const telling = [CARD, SECRET, HEADER, 'of-a-credential', bytes, Buffer.from(body).toString('base64')];
    expect(worker.lines.filter((line) => telling.some((text) => line.includes(text)))).toEqual([]);
  });

  test('is JSON, a line each', () => {
    for (const line of worker.lines) expect(() => JSON.parse(line) as unknown).not.toThrow();
  });
});
