import type { Cause, HeldReason } from './gate.ts';
import { lastInterventionInWords, type Intervention } from './interventions.ts';
import type { FailureReason } from './ladders.ts';
import type { Policy } from './policy.ts';
import { verdictInWords, type Verdict } from './verdicts.ts';

/** R90: what a delivery is doing. `own-fault` is not seen from inside the workflow; the client adds it. */
export type DeliveryState =
  | 'attempting'
  | 'waiting-fast'
  | 'waiting-slow'
  | 'held-breaker'
  | 'held-no-endpoint'
  | 'held-paused'
  | 'own-fault'
  | 'delivered'
  | 'failed'
  | 'cancelled';

/** R90: the answer to "where is my webhook?". Times are RFC 3339 in UTC. */
export interface DeliveryStatus {
  readonly merchantId: string;
  readonly webhookId: string;
  readonly type: string;
  readonly paymentId?: string;
  readonly money: boolean;
  readonly state: DeliveryState;
  /** When this run began: the record age counts from here. */
  readonly acceptedAt: string;
  /** R81: when the webhook was accepted first, if it was started anew since. */
  readonly firstAcceptedAt?: string;
  /** Attempts made: those that have a verdict. */
  readonly attempts: number;
  /** R10: fast-type failures that count. */
  readonly fastFailures: number;
  /** R20: slow steps begun. */
  readonly slowSteps: number;
  /** When the ladder pause ends; absent while held, since a held delivery waits to be woken. */
  readonly nextAttemptAt?: string;
  readonly heldSince?: string;
  /** While it is held: the breaker's pause, or a drain that met a 429, lasts at least until then. */
  readonly heldUntil?: string;
  /** R53: who paused the merchant, why and since when. The client adds it: the delivery itself does not know. */
  readonly paused?: Cause & { readonly since: string };
  /** R21, R24: when the delivery ends if it is not delivered. */
  readonly endsAt?: string;
  readonly endedAt?: string;
  readonly lastVerdict?: Verdict;
  /** Why it failed, why it is held, or the error of our own fault. */
  readonly reason?: FailureReason | (string & {});
  /** R6: since when our own fault has kept it from attempting. */
  readonly faultSince?: string;
  /** What operators asked of it, the newest last. */
  readonly interventions?: readonly Intervention[];
}

/** R53, R90: how a hold shows, by the first reason that applies; a drain goes on with what held before it. */
export const heldState = {
  paused: 'held-paused',
  'no-endpoint': 'held-no-endpoint',
  breaker: 'held-breaker',
  draining: 'held-breaker',
} as const satisfies Record<HeldReason, DeliveryState>;

/** A status in a sentence: what the delivery waits for, until when, at which attempt. */
export function statusInWords(status: DeliveryStatus, policy: Policy): string {
  const answer =
    status.lastVerdict === undefined ? '' : `; last answer: ${verdictInWords(status.lastVerdict)}`;
  const last = answer + lastInterventionInWords(status.interventions);
  const fast = `fast attempt ${status.fastFailures + 1} of ${policy.fast.budget}`;
  switch (status.state) {
    case 'attempting':
      return `attempt ${status.attempts + 1} under way${last}`;
    case 'waiting-fast':
      return `waiting until ${status.nextAttemptAt} for ${fast}${last}`;
    case 'waiting-slow':
      return `waiting until ${status.nextAttemptAt}: slow step ${status.slowSteps} of ${policy.slow.stepsMs.length}${last}`;
    case 'held-no-endpoint':
      return `held since ${status.heldSince}: the merchant has no address; it goes when one is set (${fast})${last}`;
    case 'held-breaker':
      return `held since ${status.heldSince}: ${breakerHolds(status)} (${fast})${last}`;
    case 'held-paused':
      return `held since ${status.heldSince}: ${pausedInWords(status)} (${fast})${last}`;
    case 'own-fault':
      return `our own fault since ${status.faultSince} keeps it from attempting: ${status.reason}${last}`;
    case 'delivered':
      return `delivered at ${status.endedAt} in attempt ${status.attempts}${last}`;
    case 'failed':
      return `FAILED at ${status.endedAt} after ${attemptsInWords(status.attempts)}: ${failureInWords(status)}${last}`;
    case 'cancelled':
      return `cancelled at ${status.endedAt ?? 'an unknown time'} after ${attemptsInWords(status.attempts)}${last}`;
  }
}

/** A number of attempts, in words. */
export function attemptsInWords(attempts: number): string {
  return attempts === 1 ? '1 attempt' : `${attempts} attempts`;
}

function pausedInWords({ paused }: DeliveryStatus): string {
  if (paused === undefined) return 'the merchant is paused by an operator (`merchant show` says who and why)';
  const { by = 'an operator', why = 'no reason given', since } = paused;
  return `the merchant is paused by ${by} since ${since}: ${why}`;
}

/** R1, R30. */
function failureInWords({ reason, lastVerdict }: DeliveryStatus): string {
  if (reason !== 'rejected') return String(reason);
  const what = lastVerdict?.kind === 'rejected' ? '4xx; ' : '';
  return `rejected (${what}not a money event, so not tried again)`;
}

function breakerHolds({ reason, heldUntil }: DeliveryStatus): string {
  const until = heldUntil === undefined ? '' : ` until at least ${heldUntil}`;
  return reason === 'draining'
    ? `the merchant's held deliveries are being released, its turn comes${until && `, not before ${heldUntil}`}`
    : `the breaker of the merchant is not closed${until}`;
}
