import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;

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

describe('a delivery', () => {
  test('R1 R80 completes with its result when the first attempt is answered 200, in exactly 11 history events', async () => {
    const merchantId = freshMerchant();
    await client.hooks
      .merchant(merchantId)
      .setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
    const { delivery } = await client.hooks.deliver({
      merchantId,
      type: 'payment.status_changed',
      body: '{"status":"paid"}',
    });
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
    const { events } = await client.temporal.workflow.getHandle(delivery.workflowId).fetchHistory();
    expect(events?.length).toBe(11);
  });
});
