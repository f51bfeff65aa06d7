import { defaultPayloadConverter } from '@temporalio/common';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { AttemptResult } from '../../src/activities/types.ts';
import type { DeliveryHandle, DeliveryStatus } from '../../src/client.ts';
import { codecOf } from '../../src/encryption/encryption.ts';
import type { WorkersOptions } from '../../src/workers.ts';
import { testProxy } from '../support/egress-proxy.ts';
import { ok, receiver } from '../support/posting.ts';
import {
  connectTestClient,
  ENCRYPTION,
  freshMerchant,
  startTestWorkers,
  type TestClient,
} from '../support/stack.ts';

const money = { type: 'payment.status_changed', body: '{"status":"paid"}' };
const notMoney = { type: 'kyc.status_changed', body: '{"status":"approved"}' };

let client: TestClient;
beforeAll(async () => {
  client = await connectTestClient({ fast: { firstPauseMs: 60_000 } });
});
afterAll(async () => {
  await client.close();
});

/** Hands over a webhook for an endpoint at this port. */
async function handOver(port: number, webhook = money): Promise<DeliveryHandle> {
  const merchantId = freshMerchant();
  const url = `http://127.0.0.1:${port}/`;
  await client.hooks.merchant(merchantId).setEndpoint({ url, secret: 'a secret of 20 bytes' });
  return (await client.hooks.deliver({ merchantId, ...webhook })).delivery;
}

async function withWorkers(options: Partial<WorkersOptions>): Promise<void> {
  const workers = await startTestWorkers(options);
  onTestFinished(() => workers.shutdown());
}

async function untilState(delivery: DeliveryHandle, state: DeliveryStatus['state']): Promise<DeliveryStatus> {
  return await vi.waitFor(
    async () => {
      const status = await delivery.status();
      expect(status).toMatchObject({ state });
      return status;
    },
    { timeout: 30_000, interval: 50 },
  );
}

/** What the UI shows as the result of the first activity. */
async function firstResult({ workflowId }: DeliveryHandle) {
  const { events } = await client.temporal.workflow.getHandle(workflowId).fetchHistory();
  const completed = events?.find((event) => event.activityTaskCompletedEventAttributes);
  const [payload] = completed?.activityTaskCompletedEventAttributes?.result?.payloads ?? [];
  if (payload === undefined) throw new Error('no activity has completed');
  const [decoded = payload] = await codecOf(ENCRYPTION).decode([payload]);
  return {
    bytes: decoded.data?.length ?? 0,
    value: defaultPayloadConverter.fromPayload<AttemptResult>(decoded),
  };
}

describe('R90 a verdict explains itself', () => {
  test('R2 a network failure: in the status and in the result of the activity, in less than 400 bytes', async () => {
    const gone = await receiver(ok);
    await gone.close();
    await withWorkers({});
    const delivery = await handOver(gone.port);
    const { lastVerdict } = await untilState(delivery, 'waiting-fast');
    expect(lastVerdict).toEqual({
      kind: 'network',
      code: 'connect-refused',
      message: 'nothing listens at the address',
      hint: expect.stringContaining('firewall'),
      durationMs: expect.any(Number),
      timings: { connectMs: expect.any(Number) },
      address: '127.0.0.1',
    });
    const { value, bytes } = await firstResult(delivery);
    expect(value).toEqual({ type: 'verdict', verdict: lastVerdict, url: expect.stringMatching(/^https?:/) });
    expect(bytes).toBeLessThan(400);
  });

  test('R3 a blocked address: slow ladder of a money event, the end of another', async () => {
    const { port, connections } = await receiver(ok);
    await withWorkers({ allowedNetworks: [] });
    const [slow, ended] = [await handOver(port), await handOver(port, notMoney)];
    expect((await untilState(slow, 'waiting-slow')).lastVerdict).toMatchObject({
      kind: 'address-blocked',
      code: 'address-blocked',
      message: '127.0.0.1 is a loopback address',
      hint: expect.any(String),
    });
    expect(await untilState(ended, 'failed')).toMatchObject({ reason: 'rejected', attempts: 1 });
    expect(connections()).toBe(0);
  });
});

describe('R6 an egress proxy that does not work is our own fault', () => {
  test('no attempt is spent, the fault is told, and it goes on when the proxy is back', async () => {
    const { port, requests } = await receiver(ok);
    let isBroken = true;
    const proxy = await testProxy(() => (isBroken ? 500 : 'tunnel'));
    await withWorkers({ egressProxy: new URL(`http://127.0.0.1:${proxy.port}`) });
    const delivery = await handOver(port);
    expect(await untilState(delivery, 'own-fault')).toMatchObject({
      attempts: 0,
      reason: expect.stringContaining(`the egress proxy 127.0.0.1:${proxy.port} refuses to connect`),
    });
    isBroken = false;
    expect(await untilState(delivery, 'delivered')).toMatchObject({ attempts: 1 });
    expect(requests()).toBe(1);
  });
});
