import { setTimeout as sleep } from 'node:timers/promises';
import { activityInfo, cancellationSignal, heartbeat, log } from '@temporalio/activity';
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { deliveryWorkflowId } from '../contract.ts';
import { releaseSignal } from '../workflows/messages.ts';
import type { MerchantActivities } from './types.ts';

/** The activities of a merchant's entity. */
export function createMerchantActivities(client: Client): MerchantActivities {
  /** @returns whether the delivery was there to be woken. */
  async function release(
    merchantId: string,
    webhookId: string,
    call: number,
    version: number,
  ): Promise<boolean> {
    try {
      const handle = client.workflow.getHandle(deliveryWorkflowId(merchantId, webhookId));
      await handle.signal(releaseSignal, { call, version });
      return true;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return false;
      throw error;
    }
  }

  return {
    /** R46: wakes a page of held deliveries one after the other, paced; stops at once when cancelled. */
    async wake({ merchantId, page, version, perSecond }) {
      const cancelled = cancellationSignal();
      let ended = 0;
      const begin = alreadyReached();
      let reached = begin;
      const startedAt = Date.now();
      for (const { webhookId, call } of page.slice(begin)) {
        if (cancelled.aborted) break;
        if (!(await release(merchantId, webhookId, call, version))) ended += 1;
        reached += 1;
        heartbeat(reached);
        await pause(startedAt + ((reached - begin) * 1_000) / perSecond - Date.now(), cancelled);
      }
      log.info('woke held deliveries', { merchantId, reached, of: page.length, ended });
      return { reached };
    },
  };
}

/** How far an earlier try of this activity had come. */
function alreadyReached(): number {
  const details: unknown = activityInfo().heartbeatDetails;
  return typeof details === 'number' ? details : 0;
}

async function pause(ms: number, cancelled: AbortSignal): Promise<void> {
  if (ms <= 0 || cancelled.aborted) return;
  await sleep(ms, undefined, { signal: cancelled }).catch((error: unknown) => {
    if (!cancelled.aborted) throw error;
  });
}
