import type { Payload } from '@temporalio/common';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DeliveryHandle } from '../../src/client.ts';
import { merchantWorkflowId } from '../../src/contract.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';
import { json, malformedArguments } from './payloads.ts';
import { failedWorkflowTasks } from './started-delivery.ts';

const patiently = { timeout: 30_000 };

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

async function signalByHand(
  workflowId: string,
  signalName: string,
  payloads: readonly Payload[],
): Promise<void> {
  await client.temporal.workflowService.signalWorkflowExecution({
    namespace: client.temporal.options.namespace,
    workflowExecution: { workflowId },
    requestId: randomUUID(),
    signalName,
    input: { payloads: [...payloads] },
  });
}

/** A delivery that waits, held, in the room of its merchant's entity, since there is no address. */
async function heldDelivery(merchantId: string): Promise<DeliveryHandle> {
  const { delivery } = await client.hooks.deliver({ merchantId, type: 'kyc.status_changed', body: '{}' });
  await expect.poll(() => delivery.status(), patiently).toMatchObject({ state: 'held-no-endpoint' });
  await expect.poll(() => client.hooks.merchant(merchantId).describe(), patiently).toMatchObject({ held: 1 });
  return delivery;
}

async function setEndpoint(merchantId: string): Promise<void> {
  await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
}

describe('a running delivery', () => {
  test.for(['release', 'tryNow', 'unheardOf'])(
    'R71 survives malformed arguments of the signal %s and still delivers',
    async (signalName) => {
      const merchantId = freshMerchant();
      const delivery = await heldDelivery(merchantId);

      for (const payloads of malformedArguments) {
        await signalByHand(delivery.workflowId, signalName, payloads);
      }
      expect(await delivery.status()).toMatchObject({ state: 'held-no-endpoint', attempts: 0 });
      await setEndpoint(merchantId);

      expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
      expect(await failedWorkflowTasks(client.temporal, delivery.workflowId)).toBe(0);
    },
  );
});

describe("a merchant's entity", () => {
  test.for(['report', 'setEndpoint', 'setUrl', 'rotateSecret', 'removeEndpoint', 'unheardOf'])(
    'R51 survives malformed arguments of the signal %s, answers, and still wakes what it holds',
    async (signalName) => {
      const merchantId = freshMerchant();
      const delivery = await heldDelivery(merchantId);
      const entity = merchantWorkflowId(merchantId);

      for (const payloads of malformedArguments) await signalByHand(entity, signalName, payloads);
      expect(await client.hooks.merchant(merchantId).describe()).toEqual({
        merchantId,
        held: 1,
        draining: false,
      });
      await setEndpoint(merchantId);

      expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 1 });
      expect(await failedWorkflowTasks(client.temporal, entity)).toBe(0);
    },
  );

  test.for([
    ['too long', `https://example.com/${'x'.repeat(100_000)}`],
    ['not of the web', 'mailto:payments@example.com'],
  ] as const)('R72 ignores an address that is %s and keeps the one it has', async ([, url]) => {
    const merchantId = freshMerchant();
    await setEndpoint(merchantId);

    await signalByHand(merchantWorkflowId(merchantId), 'setEndpoint', [json({ url, secret: 'sealed' })]);

    expect(await client.hooks.merchant(merchantId).describe()).toMatchObject({
      endpoint: { url: receiver.url },
    });
  });

  test('R51 ignores a report of a delivery that cannot exist', async () => {
    const merchantId = freshMerchant();
    await heldDelivery(merchantId);
    const hold = { call: 1, fastFailures: 0, heldSince: 1 };

    for (const webhookId of ['', 'a b', 'x'.repeat(129)]) {
      const report = { holds: [{ ...hold, webhookId }], left: [] };
      await signalByHand(merchantWorkflowId(merchantId), 'report', [json(report)]);
    }

    expect(await client.hooks.merchant(merchantId).describe()).toMatchObject({ held: 1 });
  });
});
