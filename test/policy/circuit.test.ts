import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  addressChanged,
  concludeTrial,
  giveBack,
  grant,
  isTrialDue,
  newCircuit,
  pauseMs,
  reset,
  sample,
  tick,
  type Circuit,
} from '../../src/policy/circuit.ts';
import { defaultPolicy } from '../../src/policy/policy.ts';

const numbers = defaultPolicy.breaker;
const MINUTE = 60_000;

/** A circuit after samples, two a second from `start` on. */
function after(
  outcomes: readonly boolean[],
  circuit: Circuit = newCircuit(),
  start = 0,
  apart = 500,
): Circuit {
  return outcomes.reduce<Circuit>((now, failed, index) => {
    const at = start + index * apart;
    return sample(numbers, now, { at, failed }, now.epoch, at);
  }, circuit);
}
const open = () => after([true, true, true, true, true]);
function halfOpen(now = 304_000) {
  const circuit = tick(open(), now);
  if (!isTrialDue(circuit)) throw new Error('no trial is due');
  return circuit;
}

describe('R41 the line', () => {
  const of = (failed: number, total: number) =>
    Array.from({ length: total }, (_, index) => index >= total - failed);
  test.each([
    [5, 5, 'open'],
    [4, 5, 'open'],
    [80, 100, 'open'],
    [79, 100, 'closed'],
    [4, 4, 'closed'],
  ])('%i failed of %i: %s', (failed, total, state) => {
    expect(after(of(failed, total)).state).toBe(state);
  });

  test('exactly 80 % opens at every size of the window', () => {
    for (let total = 5; total <= 500; total += 5) {
      expect([total, after(of(total * 0.8, total)).state]).toEqual([total, 'open']);
    }
  });

  test('a sample exactly 300 s old is out', () => {
    const four = after([true, true, true, true]);
    expect(sample(numbers, four, { at: 300_000, failed: true }, 0, 300_000).state).toBe('closed');
    expect(sample(numbers, four, { at: 299_999, failed: true }, 0, 299_999).state).toBe('open');
  });

  test('a success never opens, however bad the window', () => {
    const circuit = after([true, true, true, true, false]);
    expect(circuit.state).toBe('closed');
    expect(sample(numbers, circuit, { at: 5_000, failed: true }, 0, 5_000).state).toBe('open');
  });

  test('the window holds the newest 5,000 samples, out of order too, and a stamp ahead of now counts as now', () => {
    let circuit: Circuit = newCircuit();
    for (let index = 0; index < 5_010; index++) {
      circuit = sample(numbers, circuit, { at: (index * 7) % 5_010, failed: false }, 0, 6_000);
    }
    circuit = sample(numbers, circuit, { at: 999_999, failed: false }, 0, 6_000);
    if (circuit.state !== 'closed') throw new Error('opened by successes');
    expect(circuit.window).toHaveLength(5_000);
    expect(circuit.window.at(-1)?.at).toBe(6_000);
    expect(circuit.window[0]?.at).toBe(11);
    expect(circuit.window.map(({ at }) => at)).toEqual(
      circuit.window.map(({ at }) => at).toSorted((a, b) => a - b),
    );
  });
});

test('R40 samples of an earlier epoch are ignored', () => {
  const circuit = reset(open());
  expect(sample(numbers, circuit, { at: 5_000, failed: true }, 0, 5_000)).toBe(circuit);
});

test('R42 pauses of 5, 10, 20, 30, 30 minutes', () => {
  expect([1, 2, 3, 4, 5, 100].map((pause) => pauseMs(numbers, pause) / MINUTE)).toEqual([
    5, 10, 20, 30, 30, 30,
  ]);
});

test('R44 R45 a failed trial doubles the pause, one that did not fail closes with a fresh window', () => {
  const granted = grant(numbers, halfOpen(), 'w', 1, 304_000);
  const failed = concludeTrial(numbers, granted, 1, true, 305_000);
  expect(failed).toMatchObject({ state: 'open', pause: 2, until: 305_000 + 10 * MINUTE });
  const closed = concludeTrial(numbers, granted, 1, false, 305_000);
  expect(closed).toMatchObject({ state: 'closed', window: [] });
  expect(after([true, true, true, true], closed, 306_000).state).toBe('closed');
});

test('R48 only the current permit is used or counts; a lost or returned one lets the next be given', () => {
  const granted = grant(numbers, halfOpen(), 'w', 1, 304_000);
  expect(isTrialDue(tick(granted, 363_999))).toBe(false);
  expect(isTrialDue(tick(granted, 364_000))).toBe(true);
  const returned = giveBack(granted, 1);
  if (!isTrialDue(returned)) throw new Error('no trial is due');
  const second = grant(numbers, returned, 'x', 2, 305_000);
  expect(concludeTrial(numbers, second, 1, false, 306_000)).toBe(second);
  expect(giveBack(second, 1)).toBe(second);
  expect(concludeTrial(numbers, second, 2, false, 306_000).state).toBe('closed');
});

test('R49 a reset closes; one failure after it does not reopen, nor does a trial of before', () => {
  const granted = grant(numbers, halfOpen(), 'w', 1, 304_000);
  const circuit = reset(granted);
  expect(concludeTrial(numbers, circuit, 1, true, 305_000)).toBe(circuit);
  expect(after([true], circuit, 305_000).state).toBe('closed');
});

test('R50 a different address clears the window, makes the trial due at once and keeps the doubling', () => {
  expect(addressChanged(after([true, true, true, true]))).toEqual(newCircuit(1));
  const granted = grant(numbers, halfOpen(), 'w', 1, 304_000);
  const twice = concludeTrial(numbers, granted, 1, true, 305_000);
  const moved = addressChanged(twice);
  expect(moved).toMatchObject({ state: 'half-open', pause: 2 });
  expect(isTrialDue(moved)).toBe(true);
});

test('R41 R44 R48 whatever comes, late, repeated or reordered, the circuit keeps its rules and round-trips through JSON', () => {
  const step = fc.oneof(
    fc.record({
      do: fc.constant('sample' as const),
      failed: fc.boolean(),
      late: fc.nat(400_000),
      stale: fc.nat(2),
    }),
    fc.record({ do: fc.constant('wait' as const), ms: fc.nat(400_000) }),
    fc.record({ do: fc.constant('grant' as const) }),
    fc.record({ do: fc.constant('conclude' as const), back: fc.nat(2), failed: fc.boolean() }),
    fc.record({ do: fc.constant('giveBack' as const), back: fc.nat(2) }),
    fc.record({ do: fc.constant('reset' as const) }),
    fc.record({ do: fc.constant('move' as const) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      let circuit: Circuit = newCircuit();
      let now = 1_000_000;
      let permits = 0;
      for (const each of steps) {
        const before: Circuit = circuit;
        now += 10;
        circuit = tick(JSON.parse(JSON.stringify(circuit)) as Circuit, now);
        switch (each.do) {
          case 'sample':
            circuit = sample(
              numbers,
              circuit,
              { at: now - each.late, failed: each.failed },
              circuit.epoch - each.stale,
              now,
            );
            if (each.stale > 0) expect(circuit).toEqual(tick(before, now));
            break;
          case 'wait':
            now += each.ms;
            circuit = tick(circuit, now);
            break;
          case 'grant':
            if (isTrialDue(circuit)) circuit = grant(numbers, circuit, 'w', ++permits, now);
            break;
          case 'conclude':
            circuit = concludeTrial(numbers, circuit, permits - each.back, each.failed, now);
            break;
          case 'giveBack':
            circuit = giveBack(circuit, permits - each.back);
            break;
          case 'reset':
            circuit = reset(circuit);
            break;
          case 'move':
            circuit = addressChanged(circuit);
            break;
        }
        expect(circuit.epoch).toBeGreaterThanOrEqual(before.epoch);
        if (circuit.state !== before.state) expect(circuit.epoch).toBeGreaterThan(before.epoch);
        if (before.state === 'closed' && circuit.state === 'open') {
          expect(each).toMatchObject({ do: 'sample', failed: true });
          const window = before.window.filter(({ at }) => now - at < numbers.windowMs);
          expect(window.length + 1).toBeGreaterThanOrEqual(5);
        }
        if (circuit.state === 'open') expect(circuit.until - now).toBeLessThanOrEqual(30 * MINUTE);
        if (circuit.state === 'closed') expect(circuit.window.length).toBeLessThanOrEqual(5_000);
      }
    }),
  );
});
