import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { partsOf } from '../../src/activities/attempt.ts';
import { retryAfterMs } from '../../src/policy/retry-after.ts';
import { kindOfStatus, type Verdict } from '../../src/policy/verdicts.ts';
import { asReport } from '../../src/workflows/message-checks.ts';

const NOW = Date.UTC(2026, 10, 30, 12);
const frame = { reporter: 'worker', sequence: 1 };
const nothing = { samples: [], trials: [], slowDowns: [], holds: [], left: [], unusedPermits: [] };
const place = { webhookId: 'w-1', call: 1, fastFailures: 0, heldSince: NOW };

const retryAfter = fc.oneof(
  fc.string(),
  fc.string({ unit: fc.nat({ max: 9 }).map(String), maxLength: 400 }),
  fc.constantFrom('9'.repeat(400), 'Fri, 31 Dec 9999 23:59:59 GMT', '-1', '1e999', 'Infinity'),
);
const answered = fc
  .tuple(fc.constantFrom(200, 302, 404, 429, 503), fc.option(retryAfter, { nil: undefined }))
  .map(([status, header]) => answerOf(status, header));
const unanswered = fc
  .constantFrom('network', 'timeout', 'address-blocked', 'outcome-unknown')
  .map((kind): Verdict => ({ kind, code: kind, message: 'why', durationMs: 5 }));

function answerOf(status: number, header: string | undefined): Verdict {
  const kind = kindOfStatus(status);
  if (kind === 'network') throw new Error('these are statuses');
  const askedMs = header === undefined ? undefined : retryAfterMs(header, NOW);
  return { kind, status, durationMs: 5, ...(askedMs === undefined ? {} : { retryAfterMs: askedMs }) };
}

describe('R45 R46 what an attempt tells', () => {
  test('survives JSON and is accepted whole, whatever the verdict', () => {
    fc.assert(
      fc.property(
        fc.oneof(answered, unanswered),
        fc.option(fc.nat(), { nil: undefined }),
        (verdict, permit) => {
          const report = { ...frame, ...nothing, ...partsOf(verdict, NOW, permit) };
          const arrived: unknown = JSON.parse(JSON.stringify({ verdict, report }));
          expect(arrived).toEqual({ verdict, report });
          expect(asReport(report)).toEqual(report);
          expect(report.trials).toHaveLength(permit === undefined ? 0 : 1);
          expect(report.slowDowns).toHaveLength(verdict.kind === 'rate-limited' ? 1 : 0);
        },
      ),
    );
  });
});

describe('R52 a report', () => {
  const good = {
    samples: [[NOW, 1, 3]],
    trials: [{ permit: 1, failed: true }],
    slowDowns: [{ at: NOW, retryAfterMs: 1_000 }],
    holds: [place],
    left: ['w-2'],
    unusedPermits: [7],
  };
  const bad = {
    samples: [[NOW, 2, 3], [NOW, 1], null],
    trials: [{ permit: null, failed: true }],
    slowDowns: [{ at: NOW, retryAfterMs: null }],
    holds: [{ ...place, webhookId: '' }, 'w-1'],
    left: ['', 3],
    unusedPermits: ['7', Number.NaN],
  };

  test('loses its bad entries only', () => {
    const mixed = Object.fromEntries(
      Object.entries(good).map(([name, entries]) => [name, [...bad[name as keyof typeof bad], ...entries]]),
    );
    expect(asReport({ ...frame, ...mixed })).toEqual({ ...frame, ...good });
  });

  test.each([
    ['no reporter', { sequence: 1, ...good }],
    ['a sequence that is no number', { reporter: 'worker', sequence: '1', ...good }],
    ['no list of holds', { ...frame, ...good, holds: undefined }],
    ['a list that is none', { ...frame, ...good, samples: 'many' }],
    ['nothing', null],
  ])('with a malformed frame is ignored: %s', (_, message) => {
    expect(asReport(message)).toBeUndefined();
  });
});
