/**
 * Every number of the delivery rules, in one typed object. The defaults are the published contract;
 * tests and the local demo may shorten them, and say so. All durations are milliseconds.
 */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The numbers of SPEC's rules; see {@link defaultPolicy} for their values. */
export interface Policy {
  /** R5: limit of one whole exchange, from name lookup to the response headers. */
  readonly attemptTimeoutMs: number;
  /** R7: what an attempt may take beside its exchange; one not heard of for both together counts as lost. */
  readonly attemptOverheadMs: number;
  /** R24: record age at which an undelivered delivery ends as `expired`. */
  readonly maxAgeMs: number;
  readonly fast: {
    /** R10: the n-th fast-type failure with n = budget ends the delivery. */
    readonly budget: number;
    /** R10: pause after the first fast-type failure; doubled after each further one. */
    readonly firstPauseMs: number;
    /** R12: the longest `Retry-After` that is honoured. */
    readonly retryAfterCapMs: number;
  };
  readonly slow: {
    /** R20: pauses after the 1st, 2nd, … rejection of a money event. */
    readonly stepsMs: readonly number[];
    /** R21: limit from the first rejection on. */
    readonly ceilingMs: number;
  };
  readonly held: {
    /** R47: how long after the end of the pause it was told a held delivery first asks by itself. */
    readonly firstAskMs: number;
    /** R47: the first ask is spread by plus or minus this much. */
    readonly firstAskSpreadMs: number;
    /** R47: pause between further asks. */
    readonly askEveryMs: number;
    /** R47: up to this much is added to `askEveryMs`. */
    readonly askEverySpreadMs: number;
  };
  readonly breaker: {
    /** R41: the sliding window. */
    readonly windowMs: number;
    /** R41: the window holds this many of the newest samples. */
    readonly windowSamples: number;
    /** R41: fewer samples never open the breaker. */
    readonly leastSamples: number;
    /** R41: the share of failed samples that opens it, 0 to 1. */
    readonly failedShare: number;
    /** R42: the first pause; doubled after each failed trial. */
    readonly firstPauseMs: number;
    /** R42: no pause is longer. */
    readonly longestPauseMs: number;
    /** R48: a permit not heard of for this long is lost. */
    readonly permitMs: number;
  };
  readonly room: {
    /** R51: places in a merchant's waiting room. */
    readonly places: number;
    /** R51: and their bytes, in the payload that carries the entity from run to run. */
    readonly bytes: number;
  };
  readonly drain: {
    /** R46: the least pause of a drain that met a 429. */
    readonly slowDownMs: number;
    /** R46: releases per second and merchant. */
    readonly perSecond: number;
  };
}

/** The published contract: R5, R10, R12, R20, R21, R24, R46, R47. */
export const defaultPolicy: Policy = {
  attemptTimeoutMs: 10 * SECOND,
  attemptOverheadMs: 15 * SECOND,
  maxAgeMs: 30 * DAY,
  fast: { budget: 10, firstPauseMs: SECOND, retryAfterCapMs: HOUR },
  slow: { stepsMs: [15 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR, 24 * HOUR], ceilingMs: 48 * HOUR },
  held: {
    firstAskMs: 30 * SECOND,
    firstAskSpreadMs: 10 * SECOND,
    askEveryMs: HOUR,
    askEverySpreadMs: 15 * MINUTE,
  },
  breaker: {
    windowMs: 5 * MINUTE,
    windowSamples: 5_000,
    leastSamples: 5,
    failedShare: 0.8,
    firstPauseMs: 5 * MINUTE,
    longestPauseMs: 30 * MINUTE,
    permitMs: MINUTE,
  },
  room: { places: 10_000, bytes: 400_000 },
  drain: { slowDownMs: 30 * SECOND, perSecond: 25 },
};

/** A part of a {@link Policy}: what is left out keeps its default. */
export type PolicyOverrides = {
  readonly [K in keyof Policy]?: Policy[K] extends number ? number : Partial<Policy[K]>;
};

/** The default policy with some of its numbers replaced. */
export function policyWith(overrides: PolicyOverrides | undefined): Policy {
  if (overrides === undefined) return defaultPolicy;
  return {
    attemptTimeoutMs: overrides.attemptTimeoutMs ?? defaultPolicy.attemptTimeoutMs,
    attemptOverheadMs: overrides.attemptOverheadMs ?? defaultPolicy.attemptOverheadMs,
    maxAgeMs: overrides.maxAgeMs ?? defaultPolicy.maxAgeMs,
    fast: { ...defaultPolicy.fast, ...overrides.fast },
    slow: { ...defaultPolicy.slow, ...overrides.slow },
    held: { ...defaultPolicy.held, ...overrides.held },
    breaker: { ...defaultPolicy.breaker, ...overrides.breaker },
    room: { ...defaultPolicy.room, ...overrides.room },
    drain: { ...defaultPolicy.drain, ...overrides.drain },
  };
}
