import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { oldestStart } from '../../src/activities/census.ts';

const NOW = Date.UTC(2026, 10, 30, 12);
const DAY = 24 * 60 * 60_000;

/** As visibility answers: counts, and a page of the newest. */
function visibilityOf(starts: readonly number[]) {
  let requests = 0;
  const begun = (before: number) => {
    requests += 1;
    return starts.filter((start) => start < before);
  };
  return {
    count: async (before: number) => begun(before).length,
    list: async (before: number, size: number) =>
      begun(before)
        .toSorted((one, other) => other - one)
        .slice(0, size),
    requests: () => requests,
  };
}

describe('the oldest of many deliveries', () => {
  test('is found to a second with few requests, however many there are and whenever they began', async () => {
    const ages = fc.array(
      fc.oneof(fc.integer({ min: 1, max: 30 * DAY }), fc.integer({ min: 1, max: 10_000 })),
      { maxLength: 1_000, size: 'max' },
    );
    await fc.assert(
      fc.asyncProperty(ages, async (some) => {
        const visibility = visibilityOf(some.map((age) => NOW - age));
        const found = await oldestStart(NOW, visibility.count, visibility.list);
        expect(visibility.requests()).toBeLessThanOrEqual(24);
        expect(found === undefined).toBe(some.length === 0);
        if (found === undefined) return;
        const late = found - (NOW - Math.max(...some));
        expect(late).toBeGreaterThanOrEqual(0);
        expect(late).toBeLessThanOrEqual(1_000);
      }),
    );
  });

  test('is that of the second where thousands began in it', async () => {
    const visibility = visibilityOf(Array.from({ length: 5_000 }, (_, index) => NOW - DAY + (index % 700)));
    const found = await oldestStart(NOW, visibility.count, visibility.list);
    expect(Math.abs((found ?? 0) - (NOW - DAY))).toBeLessThanOrEqual(1_000);
  });
});
