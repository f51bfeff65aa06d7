import { activityInfo, cancellationSignal, heartbeat, log } from '@temporalio/activity';
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { counted, noCounts, paceOf, type BulkCounts, type BulkOrder, type BulkSkip } from '../bulk.ts';
import { GATE_MEMO } from '../contract.ts';
import { restartDelivery } from '../deliveries.ts';
import { DeliveryNotFound, InvalidWebhook } from '../errors.ts';
import { breakerQuery, hasState, isAskedFor, timeOf, visibilityQuery } from '../filter.ts';
import type { Cause, GateView } from '../policy/gate.ts';
import type { DeliveryState } from '../policy/status.ts';
import { visibilityPage } from '../visibility.ts';
import { cancelCauseSignal, resetBreakerSignal } from '../workflows/messages.ts';
import { pauseUntil } from './pace.ts';
import type { BulkActivities, BulkTarget, TreatRequest } from './types.ts';

/** What the activities of bulk commands work with. */
export interface BulkDependencies {
  readonly client: Client;
  /** R90: the state of an open delivery as it says itself. */
  readonly stateOf: (workflowId: string) => Promise<DeliveryState>;
}

type Outcome = 'done' | BulkSkip;

/** Targets that are done at once: one alone waits for the server most of the time. */
const TOGETHER = 5;

/** The activities of bulk commands. */
export function createBulkActivities({ client, stateOf }: BulkDependencies): BulkActivities {
  /** R81: only if the run that failed is still the newest; one that this command started already counts as done. */
  async function redeliver({ workflowId, runId }: BulkTarget, { bulk, dryRun, ...request }: TreatRequest) {
    const cause = causeOf(request);
    const restart = await restartDelivery(client, {
      workflowId,
      runId,
      cause,
      bulk,
      ...(dryRun === undefined ? {} : { dryRun }),
    });
    if (restart.outcome === 'started') return 'done';
    return restart.outcome === 'superseded' && restart.redelivery?.bulk === bulk ? 'done' : 'superseded';
  }

  async function cancel({ workflowId, runId }: BulkTarget, { filter, dryRun, ...request }: TreatRequest) {
    const handle = client.workflow.getHandle(workflowId, runId);
    if ('state' in filter && !hasState(filter, await stateOf(workflowId))) return 'other-state';
    if (dryRun) return (await handle.describe()).status.name === 'RUNNING' ? 'done' : 'ended';
    const cause = causeOf(request);
    await handle.signal(cancelCauseSignal, cause);
    await handle.cancel();
    return 'done';
  }

  async function reset({ workflowId }: BulkTarget, { dryRun, asOf, ...request }: TreatRequest) {
    const handle = client.workflow.getHandle(workflowId);
    const { memo } = await handle.describe();
    const view = memo?.[GATE_MEMO] as GateView | undefined;
    if (view === undefined || view.circuit.state === 'closed') return 'closed';
    const since = 'openedSince' in request.filter ? request.filter.openedSince : undefined;
    if (since !== undefined && (view.openedAt ?? 0) < timeOf(since, asOf)) return 'opened-earlier';
    if (!dryRun) await handle.signal(resetBreakerSignal, causeOf(request));
    return 'done';
  }

  const does = { redeliver, cancel, 'reset-breakers': reset } as const satisfies Record<
    BulkOrder['command'],
    (target: BulkTarget, request: TreatRequest) => Promise<Outcome>
  >;

  async function doOne(target: BulkTarget, request: TreatRequest): Promise<Outcome> {
    try {
      return await does[request.command](target, request);
    } catch (error) {
      if (error instanceof WorkflowNotFoundError || error instanceof DeliveryNotFound) return 'ended';
      if (error instanceof InvalidWebhook) return 'invalid';
      throw error;
    }
  }

  return {
    async countTargets(order) {
      return (await client.workflow.count(targetsQuery(order, order.asOf))).count;
    },

    async findTargets({ asOf, pageSize, from, ...order }) {
      const { found, next } = await visibilityPage(client, targetsQuery(order, asOf), pageSize, from);
      const asked = found.filter(({ attributes }) => isAskedFor(order.filter, attributes));
      const targets = asked.map(({ workflowId, runId }) => ({ workflowId, runId }));
      return { targets, ...(next === undefined ? {} : { next }) };
    },

    async treat(request) {
      const cancelled = cancellationSignal();
      let { reached, counts } = (activityInfo().heartbeatDetails as Reached | undefined) ?? nothingReached;
      const begin = reached;
      const beganAt = Date.now();
      const pace = paceOf(request);
      const together = Math.max(1, Math.min(TOGETHER, Math.floor(pace)));
      while (reached < request.targets.length && !cancelled.aborted) {
        const some = request.targets.slice(reached, reached + together);
        const outcomes = await Promise.all(
          some.map(async (target) => [target.workflowId, await doOne(target, request)] as const),
        );
        for (const [workflowId, outcome] of outcomes) counts = counted(counts, workflowId, outcome);
        reached += some.length;
        heartbeat({ reached, counts } satisfies Reached);
        const dueAt = beganAt + ((reached - begin) * 1_000) / pace;
        if (!request.dryRun) await pauseUntil(dueAt, { reached, counts } satisfies Reached, cancelled);
      }
      const { command, dryRun, bulk, targets } = request;
      log.info('bulk command', { command, dryRun, bulk, reached, of: targets.length, done: counts.done });
      return { reached, counts };
    },
  };
}

interface Reached {
  readonly reached: number;
  readonly counts: BulkCounts;
}

const nothingReached: Reached = { reached: 0, counts: noCounts };

/** What visibility knows of the targets; nothing that failed, or was accepted, after the command was given. */
function targetsQuery({ command, filter }: BulkOrder, asOf: number): string {
  const before = `< "${new Date(asOf).toISOString()}"`;
  switch (command) {
    case 'redeliver':
      return `${visibilityQuery({ ...filter, state: 'failed' }, asOf)} AND CloseTime ${before}`;
    case 'cancel':
      return `${visibilityQuery({ state: 'open', ...filter }, asOf)} AND StartTime ${before}`;
    case 'reset-breakers':
      return breakerQuery(filter);
  }
}

function causeOf({ by, why }: Cause): Cause {
  return { ...(by === undefined ? {} : { by }), ...(why === undefined ? {} : { why }) };
}
