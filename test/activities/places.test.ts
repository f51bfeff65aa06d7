import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Places } from '../../src/activities/places.ts';

test('a merchant has so many places and no more; another has its own; a trial passes the cap', () => {
  const places = new Places(2);
  expect([places.take('a', false), places.take('a', false), places.take('a', false)]).toEqual([
    true,
    true,
    false,
  ]);
  expect(places.take('b', false)).toBe(true);
  expect(places.take('a', true)).toBe(true);
  places.leave('a');
  expect(places.take('a', false)).toBe(false);
  places.leave('a');
  expect(places.take('a', false)).toBe(true);
});

test('reservations of a merchant are 100 to 200 ms apart, at least 1 s and at most 5 min away', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 400 }), (randoms) => {
      const places = new Places(1);
      const waits = randoms.map((random) => places.reserve('a', 1_000_000, random));
      for (const [index, wait] of waits.entries()) {
        expect(wait).toBeGreaterThanOrEqual(1_000);
        expect(wait).toBeLessThanOrEqual(300_000);
        const before = waits[index - 1];
        if (before !== undefined && wait < 29_800) expect(wait - before).toBeLessThanOrEqual(201);
        if (before !== undefined && wait < 29_800) expect(wait - before).toBeGreaterThanOrEqual(99);
      }
    }),
  );
});
