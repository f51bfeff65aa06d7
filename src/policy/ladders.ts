import type { Policy } from './policy.ts';
import { meaningOf, type Verdict } from './verdicts.ts';

/** How far a delivery has come on its two ladders. The budgets are separate (R23). */
export interface Ladders {
  /** R10: fast-type failures so far. */
  readonly fastFailures: number;
  /** R20: slow steps begun so far. */
  readonly slowSteps: number;
  /** R21: when the ceiling is reached, in Unix milliseconds; set by the first rejection. */
  readonly ceilingAt?: number;
}

/** Why a delivery FAILED. */
export type FailureReason =
  'rejected' | 'fast-ladder-exhausted' | 'slow-ladder-exhausted' | 'slow-ladder-ceiling' | 'expired';

/** What a delivery does after a verdict. */
export type Decision =
  | { readonly next: 'end-delivered' }
  | { readonly next: 'wait'; readonly ladder: 'fast' | 'slow'; readonly pauseMs: number }
  | { readonly next: 'end-failed'; readonly reason: FailureReason };

/** A moment at which a delivery ends, whatever it is doing. */
export interface Bound {
  /** Unix milliseconds. */
  readonly at: number;
  readonly reason: 'slow-ladder-ceiling' | 'expired';
}

export const newLadders: Ladders = { fastFailures: 0, slowSteps: 0 };

/**
 * R10–R13, R20–R23: one verdict's step on the ladders.
 * @param now - when the verdict is judged, Unix milliseconds; the ceiling of R21 counts from the first rejection.
 */
export function climb(
  policy: Policy,
  ladders: Ladders,
  verdict: Verdict,
  money: boolean,
  now: number,
): { readonly ladders: Ladders; readonly decision: Decision } {
  switch (meaningOf(verdict, money)) {
    case 'delivered':
      return { ladders, decision: { next: 'end-delivered' } };
    case 'fast-failure':
      return climbFast(policy, ladders, verdict);
    case 'rejection':
      return money ? climbSlow(policy, ladders, now) : { ladders, decision: failed('rejected') };
  }
}

/**
 * R83: what a verdict of a try-now attempt means. It spends no budget and starts no ceiling, so the
 * ladders stay as they are and `pause-goes-on` unless the verdict ends the delivery.
 */
export function judgeTryNow(
  verdict: Verdict,
  money: boolean,
): Exclude<Decision, { next: 'wait' }> | { readonly next: 'pause-goes-on' } {
  const meaning = meaningOf(verdict, money);
  if (meaning === 'delivered') return { next: 'end-delivered' };
  if (meaning === 'rejection' && !money) return failed('rejected');
  return { next: 'pause-goes-on' };
}

/** R21, R24: the nearest moment at which an undelivered delivery ends. */
export function nearestBound(policy: Policy, ladders: Ladders, acceptedAt: number): Bound {
  const expiresAt = acceptedAt + policy.maxAgeMs;
  return ladders.ceilingAt !== undefined && ladders.ceilingAt < expiresAt
    ? { at: ladders.ceilingAt, reason: 'slow-ladder-ceiling' }
    : { at: expiresAt, reason: 'expired' };
}

function climbFast(policy: Policy, before: Ladders, verdict: Verdict): ReturnType<typeof climb> {
  const ladders = { ...before, fastFailures: before.fastFailures + 1 };
  if (ladders.fastFailures >= policy.fast.budget)
    return { ladders, decision: failed('fast-ladder-exhausted') };
  const step = policy.fast.firstPauseMs * 2 ** (ladders.fastFailures - 1);
  const asked = Math.min(askedPause(verdict), policy.fast.retryAfterCapMs);
  return { ladders, decision: { next: 'wait', ladder: 'fast', pauseMs: Math.max(step, asked) } };
}

function climbSlow(policy: Policy, before: Ladders, now: number): ReturnType<typeof climb> {
  const pauseMs = policy.slow.stepsMs[before.slowSteps];
  if (pauseMs === undefined) return { ladders: before, decision: failed('slow-ladder-exhausted') };
  const ladders = {
    ...before,
    slowSteps: before.slowSteps + 1,
    ceilingAt: before.ceilingAt ?? now + policy.slow.ceilingMs,
  };
  return { ladders, decision: { next: 'wait', ladder: 'slow', pauseMs } };
}

/** R12: only 429 and 503 may ask for a longer pause. */
function askedPause(verdict: Verdict): number {
  if (!('status' in verdict)) return 0;
  return verdict.status === 429 || verdict.status === 503 ? (verdict.retryAfterMs ?? 0) : 0;
}

function failed(reason: FailureReason) {
  return { next: 'end-failed', reason } as const;
}
