import type { BulkCounts, BulkOrder, BulkSettings } from '../bulk.ts';
import type { Cause, HeldReason } from '../policy/gate.ts';
import type { Verdict } from '../policy/verdicts.ts';
import type { Place } from '../policy/waiting-room.ts';

/** What a delivery says of itself at the gate. It carries no body. */
export interface GateRequest {
  readonly merchantId: string;
  readonly webhookId: string;
  /** Number of this gate call, counted by the delivery. */
  readonly call: number;
  readonly fastFailures: number;
  /** Unix milliseconds; absent if it is not held. */
  readonly heldSince?: number;
  /** The version of the gate that released it; absent if nobody did. */
  readonly releasedAtVersion?: number;
  /** R48: the permit that released it. */
  readonly permit?: number;
  /** R83: not waiting for the gate but trying it; a refusal does not enter the waiting room. */
  readonly tryNow?: boolean;
}

/** One attempt: gate, sign, POST. */
export interface AttemptRequest {
  readonly gate: GateRequest;
  readonly body: string;
  /** Sent as `X-Webhook-Created-At`, RFC 3339. */
  readonly createdAt: string;
  /** 1-based; sent as `X-Webhook-Attempt`. */
  readonly attempt: number;
  /** R5, milliseconds. */
  readonly timeoutMs: number;
  /**
   * R21, R24: milliseconds from the scheduling of this activity to the delivery's nearest bound, after
   * which nothing is posted. A span and not a clock time, so that it holds whatever a worker's clock says.
   */
  readonly postWithinMs: number;
}

/** A test event for an endpoint. */
export interface TestRequest extends Pick<AttemptRequest, 'body' | 'createdAt' | 'timeoutMs'> {
  readonly merchantId: string;
  readonly webhookId: string;
}

/** Refused by the gate and registered in the merchant's waiting room. */
export interface Held {
  readonly type: 'held';
  readonly reason: HeldReason;
  /** When this hold began, Unix milliseconds: its place in the waiting room. */
  readonly since: number;
  /** R47: when the pause ends that it was told of, Unix milliseconds. */
  readonly until?: number;
}

/** What operators want to be told of. */
export interface NoticeSettings {
  /** A delivery that has been held for so long, milliseconds. */
  readonly heldAfterMs: number;
}

interface WithNotices {
  /** Absent where operators want no notices. */
  readonly notices?: NoticeSettings;
}

export type AttemptResult = WithNotices &
  /** `url` is where it was posted to, without user and query: evidence. */
  (
    | { readonly type: 'verdict'; readonly verdict: Verdict; readonly url?: string }
    | Held
    /** The bound was reached before the POST: nothing was sent. */
    | { readonly type: 'bound-reached' }
  );

export type AskResult = WithNotices & ({ readonly type: 'pass' } | Held);

/** A page of wake-ups for held deliveries of one merchant. */
export interface WakeRequest {
  readonly merchantId: string;
  readonly page: readonly Pick<Place, 'webhookId' | 'call'>[];
  readonly version: number;
  /** R46: the pace of a drain; absent for the one that makes a trial. */
  readonly perSecond?: number;
  /** When the pace lets this page begin, Unix milliseconds: the time since the page before is made up for. */
  readonly dueAt?: number | undefined;
  /** R48: leave to make the trial. */
  readonly permit?: number;
}

export interface WakeResult {
  /** How many of the page, from its start, were woken or found to have ended. */
  readonly reached: number;
  /** How many of them had ended. */
  readonly ended: number;
  /** When the pace lets the next page begin, Unix milliseconds; absent if nobody knows. */
  readonly nextDueAt?: number;
}

/** Activities on the deliveries' task queue. */
export interface DeliveryActivities {
  attempt(request: AttemptRequest): Promise<AttemptResult>;
  /** One POST past the gate, that nobody is told of. */
  sendTest(request: TestRequest): Promise<Verdict>;
  /** R47: a held delivery asks by itself. */
  ask(request: GateRequest): Promise<AskResult>;
  /** A held delivery has ended and leaves the waiting room. */
  leaveRoom(gone: Pick<GateRequest, 'merchantId' | 'webhookId' | 'permit'>): Promise<void>;
}

/** Activities on the merchants' task queue. */
export interface MerchantActivities {
  wake(request: WakeRequest): Promise<WakeResult>;
}

interface NoticeFrame {
  /** The same each time that the event is told of; a webhook id. */
  readonly id: string;
  /** RFC 3339 in UTC, like all times here. */
  readonly at: string;
  readonly merchantId: string;
}

interface DeliveryFacts extends NoticeFrame {
  readonly webhookId: string;
  /** The event type of the webhook. */
  readonly event: string;
  readonly paymentId?: string;
  readonly money: boolean;
  readonly attempts: number;
  readonly reason: string;
  /** In words. */
  readonly lastAnswer?: string;
}

/** An event that operators are told of: the JSON of the operator webhook, and what a hook is given. */
export type Notice =
  | (NoticeFrame & {
      readonly type: 'hookladder.breaker_opened';
      /** When the first trial is due. */
      readonly until?: string;
      readonly samples?: number;
      readonly failed?: number;
    })
  | (NoticeFrame &
      Cause & {
        readonly type: 'hookladder.breaker_closed';
        readonly because: string;
      })
  | (DeliveryFacts & { readonly type: 'hookladder.delivery_failed' })
  /** One for a merchant in each such time, however many of its deliveries are held: this is the first. */
  | (DeliveryFacts & { readonly type: 'hookladder.delivery_held'; readonly heldSince: string });

/** R8: told by a worker itself; no merchant's. */
export interface EgressNotice extends Omit<NoticeFrame, 'merchantId'> {
  readonly type: 'hookladder.egress_suspected';
  /** The process, as Temporal knows it. */
  readonly worker: string;
  /** In the last 10 s. */
  readonly merchants: number;
  readonly tries: number;
  readonly failed: number;
  /** What to do once it is mended. */
  readonly remedy: string;
}

/** The activity that tells operators, on the merchants' task queue. */
export interface NoticeActivities {
  notify(notice: Notice): Promise<void>;
}

/** The activity that counts, on the merchants' task queue. */
export interface CensusActivities {
  /** Counts now and then, for an hour. */
  takeCensus(): Promise<void>;
}

/** When a bulk command was given, Unix milliseconds: what came later is not a target, and relative times count from it. */
interface AsOf {
  readonly asOf: number;
}

/** A run of a delivery, or a merchant's entity. */
export interface BulkTarget {
  readonly workflowId: string;
  readonly runId: string;
}

export interface BulkPage {
  readonly targets: readonly BulkTarget[];
  /** Where the next page begins; absent after the last. */
  readonly next?: string;
}

export type TreatRequest = BulkOrder &
  BulkSettings &
  AsOf & {
    /** The bulk command, by its first run. */
    readonly bulk: string;
    readonly targets: readonly BulkTarget[];
  };

export interface TreatResult {
  /** How many of the targets, from the first. All, unless it was cancelled. */
  readonly reached: number;
  readonly counts: BulkCounts;
}

/** Activities of bulk commands, on the merchants' task queue. */
export interface BulkActivities {
  /** How many targets visibility knows. */
  countTargets(request: BulkOrder & AsOf): Promise<number>;
  findTargets(
    request: BulkOrder & AsOf & { readonly pageSize: number; readonly from?: string },
  ): Promise<BulkPage>;
  /** Does a page of targets, each once, also when it is tried again. */
  treat(request: TreatRequest): Promise<TreatResult>;
}
