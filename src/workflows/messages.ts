import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { FailureReason } from '../policy/ladders.ts';
import type { DeliveryStatus } from '../policy/status.ts';
import type { Verdict } from '../policy/verdicts.ts';
import type { Endpoint, HeldReason, GateView } from '../policy/gate.ts';
import type { Place } from '../policy/waiting-room.ts';

/** Wakes a held delivery. */
export interface Release {
  /** The gate call that was refused; a release of an earlier one does nothing. */
  readonly call: number;
  /** The version of the gate that the delivery must see. */
  readonly version: number;
}

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
/** R83, for the Temporal UI and CLI; what came of it is in the status. */
export const tryNowSignal = defineSignal('tryNow');
/** R83, for callers who want to be told. */
export const tryNowUpdate = defineUpdate<TryNowOutcome>('tryNow');

/** What the workers tell a merchant's entity, gathered from many deliveries. */
export interface Report {
  /** Deliveries that were refused at the gate. */
  readonly holds: readonly Place[];
  /** Held deliveries that have ended. */
  readonly left: readonly string[];
}

/** A merchant's entity as people and tools see it. */
export interface MerchantStatus {
  readonly merchantId: string;
  readonly gate: GateView;
  readonly held: number;
}

export const reportSignal = defineSignal<[Report]>('report');
export const setEndpointSignal = defineSignal<[Endpoint]>('setEndpoint');
export const removeEndpointSignal = defineSignal<[Record<string, never>]>('removeEndpoint');
export const merchantQuery = defineQuery<MerchantStatus>('breaker');
