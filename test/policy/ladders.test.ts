import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { climb, judgeTryNow, nearestBound, newLadders, type Ladders } from '../../src/policy/ladders.ts';
import { defaultPolicy, policyWith } from '../../src/policy/policy.ts';
import { kindOfStatus, meaningOf, outcomeUnknown, type Verdict } from '../../src/policy/verdicts.ts';

const NOW = Date.UTC(2026, 0, 1);
const HOUR = 3_600_000;

/** A verdict as the sender makes it. */
function answered(status: number, retryAfterMs?: number): Verdict {
  const kind = kindOfStatus(status);
  if (kind === 'network') return { kind, code: 'malformed-response', message: 'odd', durationMs: 1 };
  return { kind, status, durationMs: 1, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
}
const network: Verdict = { kind: 'network', code: 'reset', message: 'reset', durationMs: 1 };
const timeout: Verdict = { kind: 'timeout', code: 'timeout', message: 'late', durationMs: 10_000 };
const blocked: Verdict = {
  kind: 'address-blocked',
  code: 'address-blocked',
  message: 'private',
  durationMs: 0,
};

function climbAll(verdicts: readonly Verdict[], money = true) {
  let ladders: Ladders = newLadders;
  return verdicts.map((verdict) => {
    const step = climb(defaultPolicy, ladders, verdict, money, NOW);
    ladders = step.ladders;
    return step.decision;
  });
}

describe('the meaning of a verdict', () => {
  test.each([200, 201, 204, 226, 299])('R1 %i is delivered', (status) => {
    expect(meaningOf(answered(status), true)).toBe('delivered');
    expect(meaningOf(answered(status), false)).toBe('delivered');
  });

  test.each([500, 502, 503, 504, 599, 429, 101, 100, 99, 600, 999])(
    'R2 %i is a fast-type failure',
    (status) => {
      expect(meaningOf(answered(status), true)).toBe('fast-failure');
      expect(meaningOf(answered(status), false)).toBe('fast-failure');
    },
  );

  test('R2 network failure and timeout are fast-type failures', () => {
    expect([network, timeout].map((verdict) => meaningOf(verdict, true))).toEqual([
      'fast-failure',
      'fast-failure',
    ]);
  });

  test.each([400, 401, 403, 404, 408, 410, 425, 499])('R3 %i is a rejection', (status) => {
    expect(meaningOf(answered(status), true)).toBe('rejection');
    expect(meaningOf(answered(status), false)).toBe('rejection');
  });

  test('R3 an address refused by the guard is a rejection', () => {
    expect(meaningOf(blocked, true)).toBe('rejection');
  });

  test.each([300, 301, 302, 303, 304, 307, 308, 399])(
    'R4 %i is a rejection of money, else a fast-type failure',
    (status) => {
      expect(meaningOf(answered(status), true)).toBe('rejection');
      expect(meaningOf(answered(status), false)).toBe('fast-failure');
    },
  );

  test('R7 a lost outcome is a fast-type failure', () => {
    expect(meaningOf(outcomeUnknown(25_000), true)).toBe('fast-failure');
  });
});

describe('the fast ladder', () => {
  test('R10 R13 pauses 1, 2, 4, … 256 s without jitter and fails at the tenth failure; the pauses sum to 511 s', () => {
    const decisions = climbAll(Array.from({ length: 10 }, () => answered(503)));
    const pauses = decisions
      .slice(0, 9)
      .map((decision) => decision.next === 'wait' && decision.pauseMs / 1_000);
    expect(pauses).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256]);
    expect(pauses.reduce((sum, pause) => Number(sum) + Number(pause), 0)).toBe(511);
    expect(decisions[9]).toEqual({ next: 'end-failed', reason: 'fast-ladder-exhausted' });
  });

  test.each([
    { status: 429, asked: 120_000, pause: 120_000 },
    { status: 503, asked: 120_000, pause: 120_000 },
    { status: 503, asked: 500, pause: 1_000 },
    { status: 429, asked: 1e12, pause: HOUR },
    { status: 500, asked: 120_000, pause: 1_000 },
  ])(
    'R12 Retry-After of $asked ms on $status makes the first pause $pause ms',
    ({ status, asked, pause }) => {
      expect(climbAll([answered(status, asked)])[0]).toEqual({
        next: 'wait',
        ladder: 'fast',
        pauseMs: pause,
      });
    },
  );
});

describe('the slow ladder', () => {
  test('R20 a money event waits 15 min, 1 h, 4 h, 12 h, 24 h and fails at the sixth rejection', () => {
    const decisions = climbAll(Array.from({ length: 6 }, () => answered(404)));
    expect(
      decisions.slice(0, 5).map((decision) => decision.next === 'wait' && decision.pauseMs / HOUR),
    ).toEqual([0.25, 1, 4, 12, 24]);
    expect(decisions[5]).toEqual({ next: 'end-failed', reason: 'slow-ladder-exhausted' });
  });

  test('R3 an event that is not money fails at its first rejection', () => {
    expect(climbAll([answered(404)], false)).toEqual([{ next: 'end-failed', reason: 'rejected' }]);
  });

  test('R23 each ladder goes on from its own count', () => {
    const decisions = climbAll([400, 503, 503, 403, 429].map((status) => answered(status)));
    expect(decisions.map((decision) => decision.next === 'wait' && decision.pauseMs / 1_000)).toEqual([
      900, 1, 2, 3600, 4,
    ]);
  });
});

describe('the bounds', () => {
  test('R21 the ceiling is 48 h after the first rejection, and later rejections do not move it', () => {
    const first = climb(defaultPolicy, newLadders, answered(404), true, NOW).ladders;
    const second = climb(defaultPolicy, first, answered(404), true, NOW + HOUR).ladders;
    expect(nearestBound(defaultPolicy, second, NOW - HOUR)).toEqual({
      at: NOW + 48 * HOUR,
      reason: 'slow-ladder-ceiling',
    });
  });

  test('R24 without a rejection the bound is a record age of 30 days', () => {
    expect(nearestBound(defaultPolicy, newLadders, NOW)).toEqual({ at: NOW + 720 * HOUR, reason: 'expired' });
  });

  test('R22 R24 a first rejection at day 29 leaves the nearer bound at day 30', () => {
    const { ladders } = climb(defaultPolicy, newLadders, answered(404), true, NOW + 29 * 24 * HOUR);
    expect(nearestBound(defaultPolicy, ladders, NOW)).toEqual({ at: NOW + 720 * HOUR, reason: 'expired' });
  });
});

describe('a try now', () => {
  test('R83 a fast-type failure or a rejection of money leaves the pause, another rejection ends the delivery', () => {
    expect(judgeTryNow(answered(200), true)).toEqual({ next: 'end-delivered' });
    expect(judgeTryNow(answered(503), true)).toEqual({ next: 'pause-goes-on' });
    expect(judgeTryNow(answered(404), true)).toEqual({ next: 'pause-goes-on' });
    expect(judgeTryNow(answered(302), false)).toEqual({ next: 'pause-goes-on' });
    expect(judgeTryNow(answered(404), false)).toEqual({ next: 'end-failed', reason: 'rejected' });
  });
});

test('R10 R20 R21 R23 any run of verdicts keeps both budgets, ends in bounded attempts, and survives JSON at each step', () => {
  const verdict = fc.oneof(
    fc
      .record({
        status: fc.integer({ min: 100, max: 620 }),
        after: fc.option(fc.nat(10 * HOUR), { nil: undefined }),
      })
      .map(({ status, after }) => answered(status, after)),
    fc.constantFrom(network, timeout, blocked, outcomeUnknown(1)),
  );
  fc.assert(
    fc.property(fc.array(verdict, { minLength: 16, maxLength: 16 }), fc.boolean(), (verdicts, money) => {
      let ladders: Ladders = newLadders;
      let now = NOW;
      for (const [index, each] of verdicts.entries()) {
        const before = ladders;
        const step = climb(defaultPolicy, JSON.parse(JSON.stringify(ladders)) as Ladders, each, money, now);
        ladders = step.ladders;
        expect(
          ladders.fastFailures + ladders.slowSteps - before.fastFailures - before.slowSteps,
        ).toBeLessThanOrEqual(1);
        expect(ladders.fastFailures).toBeLessThanOrEqual(10);
        expect(ladders.slowSteps).toBeLessThanOrEqual(5);
        expect(before.ceilingAt === undefined || ladders.ceilingAt === before.ceilingAt).toBe(true);
        expect((ladders.ceilingAt === undefined) === (ladders.slowSteps === 0)).toBe(true);
        if (step.decision.next !== 'wait') return;
        expect(index).toBeLessThan(15);
        expect(step.decision.pauseMs).toBeGreaterThan(0);
        now += step.decision.pauseMs;
      }
    }),
  );
});

test('a policy keeps the published numbers where nothing else is said', () => {
  expect(policyWith(undefined)).toBe(defaultPolicy);
  expect(policyWith({ fast: { budget: 3 } })).toEqual({
    ...defaultPolicy,
    fast: { ...defaultPolicy.fast, budget: 3 },
  });
});
