import type { HeldReason } from '../../src/policy/gate.ts';
import type { DeliveryStatus } from '../../src/policy/status.ts';
import type { Verdict } from '../../src/policy/verdicts.ts';
import type { Answer } from '../support/receiver.ts';

/** All that a run leaves, to be judged. Times are Unix milliseconds. */
export interface ChaosRecord {
  /** Webhooks that `deliver` took. */
  readonly accepted: readonly Accepted[];
  /** Webhooks that it had not taken when time was up. */
  readonly notAccepted: number;
  /** Calls of `deliver` that failed and were made again with the same id. */
  readonly callsRepeated: number;
  /** What the receivers saw, in order. */
  readonly sightings: readonly Sighting[];
  /** What the product tells of each accepted delivery at the end. */
  readonly deliveries: readonly ToldDelivery[];
  readonly merchants: readonly ToldMerchant[];
  readonly disturbances: readonly Disturbance[];
  /** Ends of workers that nobody had killed: their last lines. */
  readonly crashes: readonly string[];
  readonly endedAt: number;
}

/** A webhook by merchant and id. */
export interface WebhookRef {
  readonly merchantId: string;
  readonly webhookId: string;
}

export type Accepted = WebhookRef;

/** One POST as its receiver saw it. */
export interface Sighting extends WebhookRef {
  readonly at: number;
  /** `X-Webhook-Attempt`. */
  readonly attempt: number;
  readonly answer: Answer;
  /** The signature is right, and the body is the one that was accepted, byte for byte. */
  readonly isGenuine: boolean;
}

/** One attempt by the history of its delivery. */
export interface ToldAttempt {
  readonly number: number;
  readonly from: number;
  readonly to: number;
  readonly verdict: Pick<Verdict, 'kind'> & { readonly status?: number };
  /** R48: it was the trial of this permit. */
  readonly permit?: number;
}

/** One hold by the history of its delivery. */
export interface ToldHold {
  readonly since: number;
  /** From here on it is in the waiting room for sure. */
  readonly registeredAt: number;
  readonly reason: HeldReason;
  /** When it was first woken. */
  readonly releasedAt?: number;
  /** It was woken to make a trial, not in its turn. */
  readonly forTrial?: true;
}

export interface ToldDelivery extends WebhookRef {
  /** Absent if it could not be asked. */
  readonly status?: DeliveryStatus;
  readonly attempts: readonly ToldAttempt[];
  readonly holds: readonly ToldHold[];
}

export interface ToldMerchant {
  readonly merchantId: string;
  /** Absent if its entity could not be asked. */
  readonly stands?: {
    readonly circuit: 'closed' | 'open' | 'half-open';
    readonly hasEndpoint: boolean;
    readonly isPaused: boolean;
    readonly held: number;
  };
  /** When its endpoint was set or removed. */
  readonly changedAt: readonly number[];
}

export type DisturbanceKind = 'worker' | 'workers' | 'server' | 'everything' | 'cut' | 'blackhole';

/** What was killed or cut, from then until it was back. */
export interface Disturbance {
  readonly kind: DisturbanceKind;
  readonly from: number;
  readonly to: number;
}
