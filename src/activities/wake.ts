import { activityInfo, cancellationSignal, heartbeat, log } from '@temporalio/activity';
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { deliveryWorkflowId } from '../contract.ts';
import type { Release } from '../policy/gate-calls.ts';
import { releaseSignal } from '../workflows/messages.ts';
import { pauseUntil } from './pace.ts';
import type { MerchantActivities } from './types.ts';

/** A page that begins later than this after it was due keeps to the pace from then on. */
const MAKES_UP_MS = 1_000;

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
      const begin = alreadyReached();
      let reached = begin;
      const beganAt = begin === 0 ? whenBegun(dueAt, Date.now()) : Date.now();
      const nextDueAt = () => beganAt + ((reached - begin) * 1_000) / perSecond;
      for (const { webhookId, call } of page.slice(begin)) {
        if (cancelled.aborted) break;
        const release = { call, version, ...(permit === undefined ? {} : { permit }) };
        if (await wakeOne(merchantId, webhookId, release))
          metrics.released(permit === undefined ? 'drain' : 'trial');
        else ended += 1;
        reached += 1;
        heartbeat(reached);
        await pauseUntil(nextDueAt(), reached, cancelled);
      }
      log.info('woke held deliveries', { merchantId, reached, of: page.length, ended });
      return { reached, ended, nextDueAt: nextDueAt() };
    },
  };
}

/** By the pace, a page that is a little late began when it was due. */
function whenBegun(dueAt: number | undefined, now: number): number {
  return dueAt !== undefined && now - dueAt <= MAKES_UP_MS ? Math.min(dueAt, now) : now;
}

/** How far an earlier try of this activity had come. */
function alreadyReached(): number {
  const details: unknown = activityInfo().heartbeatDetails;
  return typeof details === 'number' ? details : 0;
}
