import { trace } from '@opentelemetry/api';
import { InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace';
import { merchantWorkflowId } from '../../../src/contract.ts';
import { startTraces } from '../../../src/traces.ts';
import type { Stand } from '../stand.ts';
import {
  ann,
  deliver,
  inTurn,
  notMoney,
  opened,
  patient,
  quick,
  short,
  startEntity,
  untilNextRun,
  type Scenario,
} from './common.ts';

/** Operators want to be told, some are not told at once, and everything is traced. */
export async function withNoticesAndTraces(stand: Stand): Promise<void> {
  const exporter = new InMemorySpanExporter();
  const traces = startTraces({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  let pagerIsAway = true;
  const workers = await stand.startWorkers({
    policy: short,
    traces,
    metrics: { byMerchant: false },
    notices: {
      heldAfterMs: 1_000,
      hook: (notice) => {
        if (pagerIsAway && 'merchantId' in notice && notice.merchantId === 'untold')
          throw new Error('the pager is away');
      },
    },
  });
  const hooks = stand.hooks(quick, { tracerProvider: trace.getTracerProvider() });
  const scenarios: readonly Scenario[] = [
    async () => {
      const { merchant, first } = await opened(stand, 'told', patient);
      stand.answer('told', () => 200);
      await merchant.resetBreaker(ann);
      await first.result();
      await stand.until('told of both', async () => (await activities(stand, 'told', 'notify')) === 2);
      await stand.recordMerchant('operators-told', merchant);
    },
    async () => {
      await startEntity(stand, 'untold', patient);
      const { merchant } = await opened(stand, 'untold', patient);
      const told = await untilNextRun(stand, 'untold');
      await stand.recordMerchant('operators-not-told-yet', merchant, told);
      pagerIsAway = false;
      await stand.until('told', async () => (await activities(stand, 'untold', 'notify', 'Completed')) > 0);
      await stand.recordMerchant('operators-told-by-the-next-run', merchant);
    },
    async () => {
      await stand.merchant('told-of-failure', () => 404);
      await stand.recordEnded('failed-and-told', await deliver(hooks, 'told-of-failure', notMoney));
    },
    async () => {
      const delivery = await deliver(hooks, 'told-of-hold');
      await stand.until('told', async () => (await activitiesOf(stand, delivery.workflowId, 'notify')) === 1);
      await stand.recordDelivery('held-and-told', delivery);
      await stand.merchant('told-of-hold');
      await stand.recordEnded('held-and-told-then-delivered', delivery);
    },
    async () => {
      await stand.merchant('traced', (nth) => (nth === 0 ? 503 : 200));
      await stand.recordEnded('traced', await deliver(hooks, 'traced'));
      const { webhookId } = await hooks.merchant('traced').sendTest();
      await stand.record('endpoint-test.traced', `test:traced:${webhookId}`);
      await stand.record('census.counting', 'hookladder-census');
    },
  ];
  await inTurn(stand, scenarios);
  await workers.shutdown();
  await stand.record('census.handed-on', 'hookladder-census');
  await traces.shutdown();
}

async function activities(
  stand: Stand,
  merchantId: string,
  type: string,
  state?: 'Completed',
): Promise<number> {
  return await activitiesOf(stand, merchantWorkflowId(merchantId), type, state);
}

/** How many activities of a kind its newest run has begun, or brought to an end. */
async function activitiesOf(
  stand: Stand,
  workflowId: string,
  type: string,
  state?: 'Completed',
): Promise<number> {
  const { events } = await stand.temporal.workflow.getHandle(workflowId).fetchHistory();
  const scheduled = (events ?? []).filter(
    (event) => event.activityTaskScheduledEventAttributes?.activityType?.name === type,
  );
  if (state === undefined) return scheduled.length;
  const ids = new Set(scheduled.map(({ eventId }) => String(eventId)));
  const ended = (events ?? []).flatMap((event) => event.activityTaskCompletedEventAttributes ?? []);
  return ended.filter(({ scheduledEventId }) => ids.has(String(scheduledEventId))).length;
}
