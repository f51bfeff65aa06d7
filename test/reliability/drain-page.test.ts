import { NativeConnection, Worker } from '@temporalio/worker';
import { expect, inject, onTestFinished, test, vi } from 'vitest';
import { MERCHANT_TASK_QUEUE, merchantWorkflowId } from '../../src/contract.ts';
import { startReceiver } from '../support/receiver.ts';
import { dataConverterOf } from '../../src/client.ts';
import {
  connectTestClient,
  ENCRYPTION,
  freshMerchant,
  startTestWorkers,
  temporalAddress,
} from '../support/stack.ts';

test('R46 R51 D1 a drain page whose worker dies when it is to stop loses nobody: the entity goes on, and all are delivered', async () => {
  const client = await connectTestClient({ drain: { perSecond: 1 } });
  const receiver = await startReceiver();
  const merchantId = freshMerchant();
  const merchant = client.hooks.merchant(merchantId);
  const workers = await startTestWorkers();
  await merchant.setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
  await merchant.pause({ by: 'ann' });
  const deliveries = await Promise.all(
    Array.from(
      { length: 4 },
      async (_, index) =>
        await client.hooks.deliver({
          merchantId,
          webhookId: `w${index}`,
          type: 'kyc.status_changed',
          body: '{}',
        }),
    ),
  );
  await vi.waitFor(async () => expect(await merchant.breaker()).toMatchObject({ held: 4 }), {
    timeout: 30_000,
  });
  await workers.shutdown();

  // It takes up the page and is never heard of again.
  const connection = await NativeConnection.connect({ address: temporalAddress() });
  const started = Promise.withResolvers<void>();
  const dying = await Worker.create({
    connection,
    taskQueue: MERCHANT_TASK_QUEUE,
    dataConverter: dataConverterOf(ENCRYPTION),
    workflowBundle: { codePath: inject('workflowBundlePath') },
    activities: {
      wake: async () => {
        started.resolve();
        await new Promise(() => undefined);
      },
    },
  });
  const dyingRuns = dying.run();
  await merchant.resume();
  await started.promise;
  await merchant.pause({ by: 'bob' });
  const entity = client.temporal.workflow.getHandle(merchantWorkflowId(merchantId));
  await vi.waitFor(
    async () => {
      const { events } = await entity.fetchHistory();
      expect(events?.some((event) => event.activityTaskTimedOutEventAttributes)).toBe(true);
    },
    { timeout: 60_000, interval: 200 },
  );
  expect(await merchant.breaker()).toMatchObject({ held: 4, gate: { paused: { by: 'bob' } } });
  expect(await merchant.breaker()).not.toHaveProperty('ended');
  dying.shutdown();
  // Its activity never ends.
  void dyingRuns.catch(() => undefined);

  const good = await startTestWorkers();
  onTestFinished(async () => {
    await good.shutdown();
    await client.close();
    await receiver.close();
  });
  await merchant.resume();
  for (const { delivery } of deliveries) expect(await delivery.result()).toMatchObject({ attempts: 1 });
});
