import type { Verdict } from './verdicts.ts';

/** One try to reach a merchant from this process. */
export interface Reach {
  /** Unix milliseconds. */
  readonly at: number;
  readonly merchantId: string;
  /** Whether it failed before anything was connected to: DNS or connect. */
  readonly failed: boolean;
}

/** What a process has seen of its own way out: plain JSON at any moment. */
export interface Egress {
  /** R8: the sliding window, oldest first. */
  readonly window: readonly Reach[];
  /** Since when it is suspected, Unix milliseconds: the oldest failure that spoke for it. */
  readonly suspectedSince?: number;
}

/** R8. */
export const EGRESS_NUMBERS = {
  windowMs: 10_000,
  leastMerchants: 10,
  failedShare: 0.8,
  /** The window holds the newest so many: more than a process tries in its time. */
  windowSize: 2_000,
} as const;

/** An egress that nothing has been seen of. */
export const newEgress: Egress = { window: [] };

/** The codes of failures before anything was connected to. */
const unreached: ReadonlySet<string> = new Set([
  'dns-not-found',
  'dns-failed',
  'connect-refused',
  'connect-timeout',
  'unreachable',
]);

/** R8: whether an attempt failed by DNS or connect; `undefined` if it says nothing of the way out. */
export function failedToReach(verdict: Verdict): boolean | undefined {
  switch (verdict.kind) {
    case 'address-blocked':
    case 'outcome-unknown':
      return undefined;
    default:
      return 'code' in verdict && unreached.has(verdict.code);
  }
}

/**
 * R8: takes in a try. Suspicion begins when, in the last 10 s, at least 10 merchants were tried and 80 % of the tries failed;
 * since breakers then open and tries become few, it lasts until fewer than 80 % of those in the window failed, however few.
 */
export function reach(egress: Egress, seen: Reach): Egress {
  const { windowMs, windowSize } = EGRESS_NUMBERS;
  const window = [...egress.window, seen].filter(({ at }) => seen.at - at < windowMs).slice(-windowSize);
  const failures = window.filter(({ failed }) => failed);
  if (failures.length < EGRESS_NUMBERS.failedShare * window.length) return { window };
  const { suspectedSince = hasEnoughMerchants(window) ? failures[0]?.at : undefined } = egress;
  return { window, ...(suspectedSince === undefined ? {} : { suspectedSince }) };
}

function hasEnoughMerchants(window: readonly Reach[]): boolean {
  return new Set(window.map(({ merchantId }) => merchantId)).size >= EGRESS_NUMBERS.leastMerchants;
}
