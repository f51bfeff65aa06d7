import { setTimeout as sleep } from 'node:timers/promises';
import { heartbeat } from '@temporalio/activity';

const HEARTBEAT_MS = 500;

/**
 * Sleeps in short pieces with a heartbeat after each: it is by a heartbeat that a cancellation is heard of.
 * @param until - Unix milliseconds.
 * @param details - how far the activity has come, for its next try.
 */
export async function pauseUntil(until: number, details: unknown, cancelled: AbortSignal): Promise<void> {
  for (let left = until - Date.now(); left > 0 && !cancelled.aborted; left = until - Date.now()) {
    await sleep(Math.min(left, HEARTBEAT_MS), undefined, { signal: cancelled }).catch((error: unknown) => {
      if (!cancelled.aborted) throw error;
    });
    heartbeat(details);
  }
}
