import fc from 'fast-check';
import { expect, test } from 'vitest';
import { retryAfterMs } from '../../src/policy/retry-after.ts';

const NOW = Date.UTC(2026, 10, 30, 12, 0, 0);

test.each([
  ['120', 120_000],
  ['0', 0],
  [' 7 ', 7_000],
  ['-5', undefined],
  ['soon', undefined],
  ['', undefined],
  ['1e9', undefined],
  ['1.5', undefined],
  ['Mon, 30 Nov 2026 12:02:00 GMT', 120_000],
  ['Monday, 30-Nov-26 12:02:00 GMT', 120_000],
  ['Mon Nov 30 12:02:00 2026', 120_000],
  ['Mon, 30 Nov 2026 11:59:59 GMT', undefined],
  ['Mon, 30 Nov 2026 12:02:00 +0300', undefined],
  ['2026-11-30T12:02:00Z', undefined],
])('R12 Retry-After "%s" asks for %s ms', (header, expected) => {
  expect(retryAfterMs(header, NOW)).toBe(expected);
});

test('R12 no header makes the pause negative or not a number', () => {
  fc.assert(
    fc.property(fc.string(), (header) => {
      const asked = retryAfterMs(header, NOW);
      expect(asked === undefined || asked >= 0).toBe(true);
    }),
  );
});
