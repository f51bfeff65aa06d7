import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { BulkProgress } from '../bulk.ts';
import type { FailureReason } from '../policy/ladders.ts';
import type { DeliveryStatus } from '../policy/status.ts';
import type { Verdict } from '../policy/verdicts.ts';
import type { Release } from '../policy/gate-calls.ts';
import type { AddressChange, Cause, Endpoint, HeldReason, GateView, SealedSecret } from '../policy/gate.ts';
import type { Place } from '../policy/waiting-room.ts';
import type { Transition } from './merchant-state.ts';

/** R83: what came of a try now. */
export type TryNowOutcome =
  | { readonly outcome: 'delivered'; readonly verdict: Verdict }
  | { readonly outcome: 'pause-goes-on'; readonly verdict: Verdict; readonly nextAttemptAt: string }
  | { readonly outcome: 'failed'; readonly reason: FailureReason; readonly verdict?: Verdict }
  | { readonly outcome: 'held'; readonly reason: HeldReason }
  | { readonly outcome: 'already-attempting' }
  | { readonly outcome: 'cancelled' };

/** R90. */
export const statusQuery = defineQuery<DeliveryStatus>('status');
/** Sent by the `wake` activity. */
export const releaseSignal = defineSignal<[Release]>('release');
/** R83, for the Temporal UI and CLI; what came of it is in the status. The cause may be left out. */
export const tryNowSignal = defineSignal<[Cause]>('tryNow');
/** R83, for callers who want to be told. The cause may be left out. */
export const tryNowUpdate = defineUpdate<TryNowOutcome, [Cause]>('tryNow');
/** Sent right before a cancellation, which itself cannot say who and why. */
export const cancelCauseSignal = defineSignal<[Cause]>('cancelCause');

/** What one worker tells a merchant's entity, gathered from many deliveries. */
export interface Report {
  /** The worker that tells it. */
  readonly reporter: string;
  /** Grows with each report of a reporter; a repeated one changes nothing. */
  readonly sequence: number;
  /** R40: finished attempts, oldest first: when (Unix milliseconds), whether it failed (1 or 0), the epoch its gate saw. */
  readonly samples: readonly (readonly [at: number, failed: 0 | 1, epoch: number])[];
  /** R45: verdicts of trials. */
  readonly trials: readonly { readonly permit: number; readonly failed: boolean }[];
  /** R46: answers of 429, and how long they asked to wait. */
  readonly slowDowns: readonly { readonly at: number; readonly retryAfterMs: number }[];
  /** Deliveries that were refused at the gate. */
  readonly holds: readonly Place[];
  /** Held deliveries that have ended. */
  readonly left: readonly string[];
  /** R48: permits that will not be used. */
  readonly unusedPermits: readonly number[];
  /** Operators want to be told when the breaker opens and closes. */
  readonly notices?: true;
}

/** A merchant's endpoint as people and tools see it: without what is secret. */
export interface EndpointView {
  readonly url: string;
  /** Names of the custom headers. */
  readonly headers: readonly string[];
  /** R63: two secrets sign; the new one takes the old one's place then, Unix milliseconds. */
  readonly promoteAt?: number;
}

/** R63. */
export interface Rotation extends Cause {
  /** The new one. */
  readonly secret: SealedSecret;
  readonly keepOldForMs: number;
}

/** A merchant's entity as people and tools see it. Times are Unix milliseconds; in the summary RFC 3339. */
export interface MerchantStatus {
  readonly merchantId: string;
  /** In a sentence. */
  readonly summary: string;
  /** What the gate is told, without the secrets. */
  readonly gate: Omit<GateView, 'endpoint'> & {
    readonly endpoint?: EndpointView;
  };
  /** R41: in the window now; while there are no failures, successes are not told. */
  readonly samples: number;
  readonly failed: number;
  /** Deliveries in the waiting room; those that it has no place for (R51) are not counted. */
  readonly held: number;
  /** Set if the entity was ended by somebody: shown is what it knew last, and the next message starts it again (R52). */
  readonly ended?: true;
  readonly drainPerSecond: number;
  /** The newest last. */
  readonly transitions: readonly Transition[];
}

/** How far a bulk command is. */
export const bulkProgressQuery = defineQuery<BulkProgress>('progress');

export const reportSignal = defineSignal<[Report]>('report');
/** It takes the place of all that was set before. */
export const setEndpointSignal = defineSignal<[Omit<Endpoint, 'next'> & Cause]>('setEndpoint');
/** R50: it changes the address; secrets stay. */
export const setUrlSignal = defineSignal<[AddressChange]>('setUrl');
/** R63: sent by the client, which seals the new secret. */
export const rotateSecretSignal = defineSignal<[Rotation]>('rotateSecret');
/** R63: paste it into the Temporal UI; the cause may be left out. */
export const promoteSecretSignal = defineSignal<[Cause]>('promoteSecret');
export const removeEndpointSignal = defineSignal<[Cause]>('removeEndpoint');
/** R49: paste it into the Temporal UI; the cause may be left out. */
export const resetBreakerSignal = defineSignal<[Cause]>('resetBreaker');
/** R53. */
export const pauseSignal = defineSignal<[Cause]>('pause');
/** R53. */
export const resumeSignal = defineSignal<[Cause]>('resume');
/** With the time now, Unix milliseconds; without it, as in the Temporal UI, the window is that of the last message. */
export const merchantQuery = defineQuery<MerchantStatus, [now?: number]>('breaker');
