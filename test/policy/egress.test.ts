import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  EGRESS_NUMBERS,
  failedToReach,
  newEgress,
  reach,
  type Egress,
  type Reach,
} from '../../src/policy/egress.ts';
import type { Verdict } from '../../src/policy/verdicts.ts';

const { windowMs, leastMerchants, failedShare } = EGRESS_NUMBERS;

/** One try of each of so many merchants, a tenth of a second apart. */
const tries = (failed: number, worked: number, from = 0): Reach[] =>
  Array.from({ length: failed + worked }, (_, nth) => ({
    at: from + nth * 100,
    merchantId: `m${nth}`,
    failed: nth >= worked,
  }));
const after = (seen: readonly Reach[], egress: Egress = newEgress): Egress => seen.reduce(reach, egress);
const isSuspected = ({ suspectedSince }: Egress): boolean => suspectedSince !== undefined;

describe('R8 suspicion of our own egress', () => {
  test.each([
    [10, 0, true],
    [8, 2, true],
    [9, 0, false],
    [7, 3, false],
    [79, 21, false],
    [80, 20, true],
  ])('%i merchants unreached and %i reached: %s', (failed, worked, expected) => {
    expect(isSuspected(after(tries(failed, worked)))).toBe(expected);
  });

  test('ten failures of one merchant are that merchant’s', () => {
    const one = tries(50, 0).map(({ at, failed }) => ({ at, failed, merchantId: 'm' }));
    expect(isSuspected(after(one))).toBe(false);
  });

  test('a try exactly 10 s old is out', () => {
    const nine = tries(9, 0);
    const tenth = { at: windowMs, merchantId: 'm9', failed: true };
    expect(isSuspected(after([...nine, tenth]))).toBe(false);
    expect(isSuspected(after([...nine, { ...tenth, at: windowMs - 1 }]))).toBe(true);
  });

  test('begins with the oldest failure that speaks for it, and lasts while tries are few', () => {
    const suspected = after(tries(10, 2, 5_000));
    expect(suspected.suspectedSince).toBe(5_200);
    const later = reach(suspected, { at: 600_000, merchantId: 'm1', failed: true });
    expect(later.suspectedSince).toBe(5_200);
    expect(isSuspected(reach(later, { at: 601_000, merchantId: 'm2', failed: false }))).toBe(false);
  });

  test('is a matter of DNS and connect only', () => {
    const facts = { durationMs: 1, message: '' };
    const of = (kind: 'network' | 'timeout' | 'address-blocked', code: string): Verdict => ({
      kind,
      code,
      ...facts,
    });
    const failing = ['dns-not-found', 'dns-failed', 'connect-refused', 'connect-timeout', 'unreachable'];
    expect(failing.map((code) => failedToReach(of('network', code)))).toEqual(failing.map(() => true));
    expect(failedToReach(of('network', 'tls-expired'))).toBe(false);
    expect(failedToReach(of('timeout', 'timeout'))).toBe(false);
    expect(failedToReach({ kind: 'server-error', status: 503, durationMs: 1 })).toBe(false);
    expect(failedToReach(of('address-blocked', 'address-blocked'))).toBeUndefined();
  });

  const step = fc.record({
    after: fc.integer({ min: 0, max: 4_000 }),
    merchant: fc.integer({ min: 0, max: 14 }),
    failed: fc.boolean(),
  });
  const run = fc.array(fc.oneof({ weight: 3, arbitrary: step.map((s) => ({ ...s, failed: true })) }, step), {
    maxLength: 120,
  });
  const seenIn = (steps: readonly { after: number; merchant: number; failed: boolean }[]): Reach[] => {
    let at = 0;
    return steps.map(({ after: gap, merchant, failed }) => {
      at += gap;
      return { at, merchantId: `m${merchant}`, failed };
    });
  };

  test('property: begins exactly at the line, ends exactly below the share, whatever came before', () => {
    fc.assert(
      fc.property(run, (steps) => {
        const seen = seenIn(steps);
        let egress = newEgress;
        for (const [nth, each] of seen.entries()) {
          const before = egress;
          egress = reach(before, each);
          const window = seen.slice(0, nth + 1).filter(({ at }) => each.at - at < windowMs);
          const share = window.filter(({ failed }) => failed).length / window.length;
          const merchants = new Set(window.map(({ merchantId }) => merchantId)).size;
          const over = share >= failedShare;
          expect(isSuspected(egress)).toBe(over && (isSuspected(before) || merchants >= leastMerchants));
          expect(egress.window).toEqual(window);
        }
      }),
    );
  });

  test('property: the state is plain JSON', () => {
    fc.assert(
      fc.property(run, (steps) => {
        const egress = after(seenIn(steps));
        expect(JSON.parse(JSON.stringify(egress))).toEqual(egress);
      }),
    );
  });
});
