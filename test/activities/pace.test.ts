import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nextDue } from '../../src/activities/pace.ts';

test('R46: one that is late by up to a second is made up for, by more only that second', () => {
  expect(nextDue(10_000, 10_000, 10)).toBe(10_100);
  expect(nextDue(10_000, 10_900, 10)).toBe(10_100);
  expect(nextDue(10_000, 11_500, 10)).toBe(10_600);
  expect(nextDue(10_000, 60_000, 25)).toBe(59_040);
});

test('R46: however late they are, in no time go more than the pace allows and one second more of it', () => {
  const stalls = fc.array(fc.integer({ min: 0, max: 5_000 }), { minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(stalls, fc.integer({ min: 1, max: 100 }), (lates, perSecond) => {
      let [now, dueAt] = [0, 0];
      const wentAt = lates.map((late) => {
        now = Math.max(now, dueAt) + late;
        dueAt = nextDue(dueAt, now, perSecond);
        return now;
      });
      for (const [first, from] of wentAt.entries())
        for (const [last, until] of wentAt.entries())
          if (last > first)
            expect(last - first).toBeLessThanOrEqual(((until - from) / 1_000 + 1) * perSecond + 1e-6);
    }),
  );
});
