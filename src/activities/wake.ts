import { activityInfo, cancellationSignal, heartbeat, log } from '@temporalio/activity';
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { deliveryWorkflowId } from '../contract.ts';
import type { Release } from '../policy/gate-calls.ts';
import { releaseSignal } from '../workflows/messages.ts';
import { nextDue, pauseUntil } from './pace.ts';
import type { MerchantActivities } from './types.ts';

/** What the activities of a merchant's entity work with. */
export interface WakeDependencies {
  readonly client: Client;
  readonly metrics: { released(purpose: 'drain' | 'trial'): void };
}

/** The activities of a merchant's entity. */
export function createMerchantActivities({ client, metrics }: WakeDependencies): MerchantActivities {
  /** @returns whether the delivery was there to be woken. */
  async function wakeOne(merchantId: string, webhookId: string, release: Release): Promise<boolean> {
    try {
      const handle = client.workflow.getHandle(deliveryWorkflowId(merchantId, webhookId));
      await handle.signal(releaseSignal, release);
      return true;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return false;
      throw error;
    }
  }

  return {
    /** R46: wakes a page of held deliveries one after the other, paced; stops at once when cancelled. */
    async wake({ merchantId, page, version, perSecond = Number.POSITIVE_INFINITY, dueAt, permit }) {
      const cancelled = cancellationSignal();
      let ended = 0;
      let reached = alreadyReached();
      let nextDueAt = reached === 0 ? (dueAt ?? Date.now()) : Date.now();
      for (const { webhookId, call } of page.slice(reached)) {
        if (cancelled.aborted) break;
        nextDueAt = nextDue(nextDueAt, Date.now(), perSecond);
        const release = { call, version, ...(permit === undefined ? {} : { permit }) };
        if (await wakeOne(merchantId, webhookId, release))
          metrics.released(permit === undefined ? 'drain' : 'trial');
        else ended += 1;
        reached += 1;
        heartbeat(reached);
        await pauseUntil(nextDueAt, reached, cancelled);
      }
      log.info('woke held deliveries', { merchantId, reached, of: page.length, ended });
      return { reached, ended, nextDueAt };
    },
  };
}

/** How far an earlier try of this activity had come. */
function alreadyReached(): number {
  const details: unknown = activityInfo().heartbeatDetails;
  return typeof details === 'number' ? details : 0;
}
