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
  ['Wed, 31 Feb 2027 12:02:00 GMT', undefined],
  ['Wednesday, 31-Feb-27 12:02:00 GMT', undefined],
  ['Wed Feb 31 12:02:00 2027', undefined],
  ['Tue Dec  1 12:00:00 2026', 86_400_000],
  ['9'.repeat(400), 31_536_000_000],
  ['Fri, 31 Dec 9999 23:59:59 GMT', 31_536_000_000],
])('R12 Retry-After "%s" asks for %s ms', (header, expected) => {
  expect(retryAfterMs(header, NOW)).toBe(expected);
});

test('R12 no header makes the pause negative or not a number', () => {
  const digits = fc.string({ unit: fc.nat({ max: 9 }).map(String), maxLength: 1_000 });
  fc.assert(
    fc.property(fc.oneof(fc.string(), digits), (header) => {
      const asked = retryAfterMs(header, NOW);
      expect(asked === undefined || (Number.isFinite(asked) && asked >= 0)).toBe(true);
    }),
  );
});
