/** Event types that are known, with the statuses that are known of them. Any other status may come too. */
interface KnownStatuses {
  'payment.status_changed':
    'paid' | 'settled' | 'refunded' | 'amount_mismatch' | 'expired' | 'cancelled' | 'failed';
  'withdrawal.status_changed': 'completed' | 'cancelled' | 'failed';
  'exchange.status_changed': 'completed' | 'cancelled' | 'failed';
  'refund.completed': never;
  'refund.reversed': never;
  'refund.rejected': never;
  'refund.failed': never;
  'subscription.status_changed': never;
  'kyc.status_changed': never;
  'gateway.status_changed': never;
  'payment.delivery_proof_reminder': never;
}

/** An event type that is known (R30). */
export type KnownEventType = keyof KnownStatuses;

/** All of them. */
export const KNOWN_EVENT_TYPES: readonly KnownEventType[] = [
  'payment.status_changed',
  'withdrawal.status_changed',
  'exchange.status_changed',
  'refund.completed',
  'refund.reversed',
  'refund.rejected',
  'refund.failed',
  'subscription.status_changed',
  'kyc.status_changed',
  'gateway.status_changed',
  'payment.delivery_proof_reminder',
];

interface EventFacts {
  /** The same on every attempt and redelivery: handle each once. */
  readonly id: string;
  /** When this attempt was signed. */
  readonly timestamp: Date;
  /** 1, 2, 3, …; not signed, so good for logs only. */
  readonly attempt: number | undefined;
  /** When the webhook was accepted by the sender, to order by; not signed. */
  readonly createdAt: Date | undefined;
  /** The bytes that were signed. */
  readonly rawBody: Uint8Array;
}

/** The body of a known event: what a platform puts beside `status` is its own. */
export interface EventData<Type extends KnownEventType> {
  readonly status?: KnownStatuses[Type] | (string & {});
  readonly [field: string]: unknown;
}

/** An event of a known type. */
export type KnownEvent = {
  [Type in KnownEventType]: EventFacts & {
    readonly known: true;
    readonly type: Type;
    readonly data: EventData<Type>;
  };
}[KnownEventType];

/** An event of any other type. Answer 2xx to those that you do not use: new types come without notice. */
export interface UnknownEvent extends EventFacts {
  readonly known: false;
  /** `undefined` where the body names none. */
  readonly type: string | undefined;
  /** The body, parsed. */
  readonly data: unknown;
}

/** A genuine webhook. `known` tells the two kinds apart, then `type` one from another. */
export type WebhookEvent = KnownEvent | UnknownEvent;

/** Makes an event of a body; its type is the body's top-level `type`, `event` or `event_type`. */
export function eventOf(facts: EventFacts, data: unknown): WebhookEvent {
  const { type, event, event_type } = (typeof data === 'object' && data !== null ? data : {}) as Record<
    string,
    unknown
  >;
  const named = [type, event, event_type].filter((each) => typeof each === 'string');
  const known = KNOWN_EVENT_TYPES.find((each) => named.includes(each));
  // The compiler does not see that type and data belong together.
  if (known !== undefined) return { ...facts, known: true, type: known, data } as KnownEvent;
  return { ...facts, known: false, type: named[0], data };
}
