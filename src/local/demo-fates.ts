import type { Webhook } from '../client.ts';
import type { DeliveryStatus } from '../policy/status.ts';
import type { Policy } from '../policy/policy.ts';

/** How the demo's receiver answers one attempt; `reset` breaks the connection. */
export type Answer = { readonly status: number; readonly body: string } | 'reset';

/** One of the things that can happen to a webhook, with a merchant that makes it happen. */
export interface Fate {
  readonly merchantId: string;
  /** What the demo shows by it. */
  readonly story: string;
  readonly webhook: Pick<Webhook, 'type' | 'body'>;
  /** How many webhooks are delivered; one by default. */
  readonly webhooks?: number;
  /** By the number of the attempt alone, so that a delivery of an earlier start goes on as it began. */
  readonly answer: (attempt: number) => Answer;
  readonly end: Pick<DeliveryStatus, 'state' | 'reason'>;
}

/** The demo's merchant that has no address at first. */
export const NEWCOMER = 'demo-newcomer';

/** The published numbers, shortened until one can watch. Kept are the steps' number and the doubling of the pauses. */
export const demoNumbers = {
  attemptTimeoutMs: 2_000,
  fast: { budget: 6, firstPauseMs: 250 },
  slow: { stepsMs: [3_000, 5_000, 8_000, 12_000, 20_000], ceilingMs: 60_000 },
  breaker: { firstPauseMs: 2_000, longestPauseMs: 4_000 },
} as const satisfies {
  readonly attemptTimeoutMs: number;
  readonly fast: Partial<Policy['fast']>;
  readonly slow: Partial<Policy['slow']>;
  readonly breaker: Partial<Policy['breaker']>;
};

const ok: Answer = { status: 200, body: 'thank you' };

export const fates: readonly Fate[] = [
  {
    merchantId: 'demo-prompt',
    story: 'payment paid: delivered at once',
    webhook: payment('payment.status_changed', 'paid'),
    answer: () => ok,
    end: { state: 'delivered' },
  },
  {
    merchantId: 'demo-flaky',
    story: 'payment settled: fails three times, recovers on the fast ladder',
    webhook: payment('payment.status_changed', 'settled'),
    answer: (attempt) => {
      if (attempt > 3) return ok;
      return attempt === 2 ? 'reset' : { status: 503, body: 'back in a moment' };
    },
    end: { state: 'delivered' },
  },
  {
    merchantId: 'demo-strict',
    story: 'withdrawal (money): 401, then fixed, delivered on the slow ladder',
    webhook: payment('withdrawal.status_changed', 'completed'),
    answer: (attempt) => (attempt > 2 ? ok : { status: 401, body: 'unknown signature' }),
    end: { state: 'delivered' },
  },
  {
    merchantId: 'demo-picky',
    story: 'kyc change (not money): 400, FAILED at once',
    webhook: { type: 'kyc.status_changed', body: JSON.stringify({ customer: 'c-2041', status: 'approved' }) },
    answer: () => ({ status: 400, body: 'unknown event' }),
    end: { state: 'failed', reason: 'rejected' },
  },
  {
    merchantId: NEWCOMER,
    story: 'refund: held until the address is set, then delivered',
    webhook: payment('refund.completed', 'completed'),
    answer: () => ok,
    end: { state: 'delivered' },
  },
  {
    merchantId: 'demo-overloaded',
    story: 'exchange: always 429, FAILED: fast ladder exhausted',
    webhook: payment('exchange.status_changed', 'completed'),
    // An answer that never opens the merchant's breaker (R40): the ladder is climbed without being held.
    answer: () => ({ status: 429, body: 'too many requests' }),
    end: { state: 'failed', reason: 'fast-ladder-exhausted' },
  },
  {
    merchantId: 'demo-outage',
    story: 'endpoint down: the breaker opens, holds, tries one at a time, doubles its pause, closes, drains',
    webhook: payment('payment.status_changed', 'paid'),
    webhooks: 3,
    answer: (attempt) => (attempt > 3 ? ok : { status: 500, body: 'down' }),
    end: { state: 'delivered' },
  },
];

/** The fate that a merchant of the demo stands for. */
export function fateOf(merchantId: string): Fate | undefined {
  return fates.find((fate) => fate.merchantId === merchantId);
}

function payment(type: string, status: string): Fate['webhook'] {
  return { type, body: JSON.stringify({ status, amount: '129.00', currency: 'EUR' }) };
}
