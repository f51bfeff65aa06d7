import type { Stand } from '../stand.ts';
import { allEnded, ann, deliverMany, opened, patient, startRaw, type Scenario } from './common.ts';

/** Of bulk commands and test events. */
export const others: readonly Scenario[] = [
  async (stand) => {
    const hooks = stand.hooks();
    await stand.merchant('in-bulk', (nth) => (nth < 5 ? 404 : 200));
    await allEnded(await deliverMany(hooks, 'in-bulk', 5));
    await untilListed(stand, 'in-bulk', 'ExecutionStatus = "Failed"', 5);
    const order = { command: 'redeliver', filter: { merchantId: 'in-bulk' }, ...ann, pageSize: 2 } as const;
    const dryRun = await hooks.bulk({ ...order, dryRun: true });
    await dryRun.result();
    await stand.record('bulk.dry-run', dryRun.id);
    const command = await hooks.bulk({ ...order, pagesPerRun: 1 });
    const { firstExecutionRunId } = await firstRunOf(stand, command.id);
    await command.result();
    await stand.record('bulk.redeliver-first-run', command.id, firstExecutionRunId);
    await stand.record('bulk.redeliver-last-run', command.id);
    await untilListed(stand, 'in-bulk', 'ExecutionStatus = "Completed"', 5);
  },
  async (stand) => {
    const hooks = stand.hooks();
    const held = await deliverMany(hooks, 'cancelled-in-bulk', 4);
    await untilListed(stand, 'cancelled-in-bulk', 'ExecutionStatus = "Running"', 4);
    const order = { command: 'cancel', filter: { merchantId: 'cancelled-in-bulk' }, ...ann } as const;
    const command = await hooks.bulk({ ...order, perSecond: 0.5, pageSize: 1 });
    await stand.until('some are cancelled', async () => (await command.progress()).done >= 1);
    await stand.record('bulk.under-way', command.id);
    await command.stop();
    await command.result();
    await stand.record('bulk.stopped', command.id);
    const rest = await hooks.bulk(order);
    await rest.result();
    await stand.record('bulk.cancel', rest.id);
    await allEnded(held);
  },
  async (stand) => {
    const { hooks, first } = await opened(stand, 'reset-in-bulk', patient);
    const isOpen =
      'WorkflowType = "merchantBreaker" AND WebhookMerchant = "reset-in-bulk" AND WebhookBreaker = "open"';
    await stand.until('listed', async () => (await stand.temporal.workflow.count(isOpen)).count === 1);
    stand.answer('reset-in-bulk', () => 200);
    const command = await hooks.bulk({
      command: 'reset-breakers',
      filter: { merchantId: 'reset-in-bulk' },
      ...ann,
    });
    await command.result();
    await stand.record('bulk.reset-breakers', command.id);
    await first.result();
    await startRaw(stand, 'bulk', 'bulk:odd', { command: 'odd' });
    await stand.recordRefused('bulk.invalid-input', 'bulk:odd');
  },
  async (stand) => {
    const merchant = await stand.merchant('tested', (nth) => (nth === 0 ? 200 : 500));
    for (const name of ['endpoint-test.delivered', 'endpoint-test.failed']) {
      const { webhookId } = await merchant.sendTest();
      await stand.record(name, `test:tested:${webhookId}`);
    }
    await startRaw(stand, 'endpointTest', 'test:untested:w', { merchantId: 'untested', webhookId: 'w' });
    await stand.recordRefused('endpoint-test.no-endpoint', 'test:untested:w');
    await startRaw(stand, 'endpointTest', 'test:untested:w2', {});
    await stand.recordRefused('endpoint-test.invalid-input', 'test:untested:w2');
  },
];

async function firstRunOf(stand: Stand, workflowId: string) {
  const { raw } = await stand.temporal.workflow.getHandle(workflowId).describe();
  return { firstExecutionRunId: raw.workflowExecutionInfo?.firstRunId ?? '' };
}

async function untilListed(
  stand: Stand,
  merchantId: string,
  condition: string,
  count: number,
): Promise<void> {
  const query = `WorkflowType = "delivery" AND WebhookMerchant = "${merchantId}" AND ${condition}`;
  await stand.until(query, async () => (await stand.temporal.workflow.count(query)).count === count);
}
