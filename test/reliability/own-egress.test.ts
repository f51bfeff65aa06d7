import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { EgressNotice, Notice } from '../../src/activities/types.ts';
import { reserveFreePort } from '../../src/local/free-port.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const MERCHANTS = 12;
const patience = { timeout: 60_000, interval: 100 };

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver | undefined;
const told: (Notice | EgressNotice)[] = [];

beforeAll(async () => {
  client = await connectTestClient({
    fast: { firstPauseMs: 1 },
    breaker: { firstPauseMs: 600_000 },
    held: { firstAskMs: 600_000 },
  });
  workers = await startTestWorkers({
    notices: { hook: (notice) => void told.push(notice), heldAfterMs: 86_400_000 },
    policy: { breaker: { firstPauseMs: 600_000 } },
  });
});
afterAll(async () => {
  await workers.shutdown();
  await client.close();
  await receiver?.close();
});

const suspicions = () => told.filter(({ type }) => type === 'hookladder.egress_suspected');

test('R8 D10 R49 nothing is reached: noticed once, the breakers hold, one command resets what opened, nothing is lost', async () => {
  const began = new Date().toISOString();
  const port = await reserveFreePort('127.0.0.1');
  const ids = Array.from({ length: MERCHANTS }, () => freshMerchant());
  const merchants = ids.map((id) => client.hooks.merchant(id));
  await Promise.all(
    merchants.map((merchant) =>
      merchant.setEndpoint({
        url: `http://127.0.0.1:${port}/${merchant.merchantId}`,
        secret: 'a secret of 20 bytes',
      }),
    ),
  );
  const outcomes = await client.hooks.deliverMany(
    ids.map((merchantId) => ({ merchantId, type: 'kyc.status_changed', body: '{}' })),
  );
  const deliveries = outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value.delivery;
  });

  await vi.waitFor(() => expect(suspicions()).toHaveLength(1), patience);
  const [notice] = suspicions() as [EgressNotice];
  expect(notice).toMatchObject({
    id: expect.stringMatching(/^egress-suspected\.[A-Za-z0-9._-]+$/),
    remedy: expect.stringContaining('breaker reset --opened-since'),
  });
  expect(notice.merchants).toBeGreaterThanOrEqual(10);
  expect(notice.at >= began).toBe(true);
  await vi.waitFor(async () => {
    const views = await Promise.all(merchants.map((merchant) => merchant.breaker()));
    expect(views.map((view) => view?.gate.circuit.state)).toEqual(ids.map(() => 'open'));
  }, patience);

  receiver = await startReceiver(() => 200, port);
  const since = notice.remedy.split(' ').at(-1) ?? '';
  // Visibility is late by a moment: what it did not list yet is found by the same command again.
  await vi.waitFor(async () => {
    const reset = await client.hooks.bulk({ command: 'reset-breakers', filter: { openedSince: since } });
    await reset.result();
    const states = await Promise.all(deliveries.map(async (delivery) => (await delivery.status()).state));
    expect(states).toEqual(deliveries.map(() => 'delivered'));
  }, patience);
  expect(receiver.received).toHaveLength(MERCHANTS);
  expect(suspicions()).toHaveLength(1);
});
