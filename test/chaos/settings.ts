import { policyWith, type PolicyOverrides } from '../../src/policy/policy.ts';

/** The ladders and pauses as published take hours; the same rules with numbers that pass within a run. */
export const POLICY = {
  attemptTimeoutMs: 3_000,
  // A busy machine must not look like a killed worker.
  attemptOverheadMs: 12_000,
  fast: { budget: 8, firstPauseMs: 100, retryAfterCapMs: 5_000 },
  // The first two steps pass within a run; the others are slept in at its end.
  slow: { stepsMs: [500, 1_500, 3_600_000, 7_200_000, 14_400_000] },
  held: { firstAskMs: 10_000, firstAskSpreadMs: 3_000, askEveryMs: 60_000, askEverySpreadMs: 15_000 },
  // Longer than what has passed a gate that was read a moment ago takes to its POST, on a busy machine too.
  breaker: { windowMs: 20_000, firstPauseMs: 5_000, longestPauseMs: 10_000, permitMs: 12_000 },
  drain: { slowDownMs: 1_000, perSecond: 25 },
} as const satisfies PolicyOverrides;

export const NUMBERS = policyWith(POLICY);
