import { setTimeout as sleep } from 'node:timers/promises';
import { heartbeat } from '@temporalio/activity';

const HEARTBEAT_MS = 500;
/** So much lateness is made up for; the rest is lost, so that nobody is hit by what has piled up. */
const MAKES_UP_MS = 1_000;

/**
 * When the next one may go, if this one goes now: never more in a time than the pace allows, and a second's worth.
 * @param dueAt - when this one might have gone.
 */
export function nextDue(dueAt: number, now: number, perSecond: number): number {
  return Math.max(dueAt, now - MAKES_UP_MS) + 1_000 / perSecond;
}

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
