import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { MerchantHandle } from '../../src/client.ts';
import { merchantWorkflowId } from '../../src/contract.ts';
import type { GateView } from '../../src/policy/gate.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { reportSignal, type Report } from '../../src/workflows/messages.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const HOUR = 3_600_000;

let client: TestClient;
let workers: RunningWorkers;
let merchantId: string;
let merchant: MerchantHandle;
let sequence = 0;

beforeAll(async () => {
  client = await connectTestClient();
  workers = await startTestWorkers();
});
afterAll(async () => {
  await workers.shutdown();
  await client.close();
});
beforeEach(() => {
  merchantId = freshMerchant();
  merchant = client.hooks.merchant(merchantId);
});

/** An entity that ends a run after so many signals. */
async function startEntity(signalsPerRun: number, policy: PolicyOverrides): Promise<void> {
  await client.temporal.workflow.start('merchantBreaker', {
    workflowId: merchantWorkflowId(merchantId),
    taskQueue: 'hookladder-merchants',
    args: [{ merchantId, signalsPerRun, policy }],
  });
  await merchant.setEndpoint({ url: 'https://merchant.example/', secret: 'a secret of 20 bytes' });
}

async function report(parts: Partial<Report>): Promise<void> {
  const nothing = { samples: [], trials: [], slowDowns: [], holds: [], left: [], unusedPermits: [] };
  const handle = client.temporal.workflow.getHandle(merchantWorkflowId(merchantId));
  sequence += 1;
  // Each from a reporter of its own: one reporter sends one report after the other, these overtake each other.
  await handle.signal(reportSignal, { reporter: `r${sequence}`, sequence, ...nothing, ...parts });
}

async function reportAt60ASecond(count: number, epoch: number): Promise<void> {
  const startedAt = Date.now();
  const sending: Promise<void>[] = [];
  for (let index = 1; index <= count; index++) {
    sending.push(report({ samples: [[Date.now(), 0, epoch]] }));
    await sleep(Math.max(0, startedAt + (index * 1_000) / 60 - Date.now()));
  }
  await Promise.all(sending);
}

async function newestRun(): Promise<string> {
  return (await client.temporal.workflow.getHandle(merchantWorkflowId(merchantId)).describe()).runId;
}

describe('R51 what describe shows is what the reducer knows, after each of ten continue-as-news', () => {
  const failures = async (): Promise<void> => {
    const { epoch = 0 } = (await merchant.breaker())?.gate ?? {};
    await report({ samples: Array.from({ length: 5 }, () => [Date.now(), 1, epoch] as const) });
  };
  test.each<[state: string, policy: PolicyOverrides, arrange: () => Promise<void>, expected: object]>([
    ['closed', {}, async () => undefined, { circuit: { state: 'closed' } }],
    ['open', {}, failures, { circuit: { state: 'open', pause: 1 } }],
    ['half-open', { breaker: { firstPauseMs: 1 } }, failures, { circuit: { state: 'half-open', pause: 1 } }],
    [
      'paused',
      {},
      async () => {
        await merchant.pause({ by: 'ann', why: 'a test' });
      },
      { paused: { by: 'ann', why: 'a test' } },
    ],
  ])('%s', async (_state, policy, arrange, expected) => {
    await startEntity(4, policy);
    await arrange();
    const handle = client.temporal.workflow.getHandle(merchantWorkflowId(merchantId));
    await vi.waitFor(async () => expect((await handle.describe()).memo).toMatchObject({ gate: expected }), {
      timeout: 30_000,
    });
    const seen = new Set<string>();
    while (seen.size < 11) {
      await report({ holds: [] });
      const [{ memo, runId }, status] = [await handle.describe(), await merchant.breaker()];
      seen.add(runId);
      const { endpoint: _, ...shown } = (memo ?? {})['gate'] as GateView;
      const { endpoint, ...known } = status?.gate ?? {};
      expect([shown, endpoint?.url]).toEqual([known, 'https://merchant.example/']);
      expect(status?.gate).toMatchObject(expected);
    }
  });
});

test('R41 B3 2,000 reports at 60 a second over a continue-as-new every 50: no error, no stall, samples in = samples counted', async () => {
  await startEntity(50, { breaker: { windowMs: HOUR, windowSamples: 100_000 } });
  const { epoch = 0 } = (await merchant.breaker())?.gate ?? {};
  for (let sent = 0; sent < 2_000; sent += 500) {
    const run = await newestRun();
    await reportAt60ASecond(500, epoch);
    // On a busy machine a run takes in many more than 50 before it finds a moment to end; without signals it must.
    await vi.waitFor(async () => expect(await newestRun()).not.toBe(run), { timeout: 30_000 });
  }
  await vi.waitFor(
    async () => expect(await merchant.breaker()).toMatchObject({ samples: 2_000, failed: 0 }),
    { timeout: 30_000 },
  );
}, 120_000);

test('B4 eight clients ask for its state in a loop while its runs end under them, and every answer comes', async () => {
  await startEntity(5, {});
  const sending = new AbortController();
  const asking = Array.from({ length: 8 }, async () => {
    while (!sending.signal.aborted) expect(await merchant.breaker()).toMatchObject({ merchantId });
  });
  const senders = Array.from({ length: 4 }, async () => {
    for (let index = 0; index < 50; index++) await report({ holds: [] });
  });
  await Promise.all(senders).finally(() => sending.abort());
  await Promise.all(asking);
});
