import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Reporter } from '../../src/activities/reporter.ts';
import type { Report } from '../../src/workflows/messages.ts';

const MINUTE = 60_000;
const place = (webhookId: string) => ({ webhookId, call: 1, fastFailures: 0, heldSince: 0 });

interface Sent {
  readonly at: number;
  readonly merchantId: string;
  readonly report: Report;
}

let sent: Sent[];
/** How the next sendings go; those that are not listed succeed. */
let failing: number;
let reporter: Reporter;

beforeEach(() => {
  vi.useFakeTimers({ now: 100 * MINUTE });
  sent = [];
  failing = 0;
  reporter = new Reporter(async (merchantId, report) => {
    if (failing > 0) {
      failing -= 1;
      throw new Error('Temporal is away');
    }
    sent.push({ at: Date.now() - 100 * MINUTE, merchantId, report });
  });
});
afterEach(() => {
  vi.useRealTimers();
});

const fail = (at = Date.now()) => reporter.sample('m', at, true, 1);
const succeed = (at = Date.now()) => reporter.sample('m', at, false, 1);

describe('R40 reports', () => {
  test('tell a failure within 50 ms, with what else there is, and are at least 200 ms apart', async () => {
    void succeed();
    void fail();
    await vi.advanceTimersByTimeAsync(50);
    expect(sent.map(({ at, report }) => [at, report.samples.length])).toEqual([[50, 2]]);
    void fail();
    await vi.advanceTimersByTimeAsync(199);
    expect(sent).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(sent).toHaveLength(2);
  });

  test('tell a success within a second while there are failures, by whomever they were seen', async () => {
    void fail();
    await vi.advanceTimersByTimeAsync(MINUTE);
    void succeed();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(sent).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(10 * MINUTE);
    const elsewhere = Date.now() - 4 * MINUTE;
    void reporter.sample('m', Date.now(), false, 1, elsewhere);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(sent).toHaveLength(3);
  });

  test('keep a success without failures for the report that a failure makes, while it counts', async () => {
    void succeed();
    await vi.advanceTimersByTimeAsync(2 * MINUTE);
    for (let index = 0; index < 3; index++) void succeed();
    await vi.advanceTimersByTimeAsync(4 * MINUTE);
    void succeed();
    expect(sent).toHaveLength(0);
    void fail();
    await vi.advanceTimersByTimeAsync(50);
    expect(sent.map(({ report }) => report.samples.map(([, failed]) => failed))).toEqual([[0, 0, 0, 0, 1]]);
  });

  test('tell a thousand successes at once, and forget a merchant of whom nothing counts any more', async () => {
    for (let index = 0; index < 1_000; index++) void succeed();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(sent.map(({ report }) => report.samples.length)).toEqual([1_000]);
    void succeed();
    await vi.advanceTimersByTimeAsync(6 * MINUTE);
    await reporter.flush();
    expect(sent).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('never exceed five a second for one merchant, whatever comes in, and lose no sample', async () => {
    let samples = 0;
    for (let ms = 0; ms < 10_000; ms += 10) {
      for (let index = 0; index < 10; index++) {
        void reporter.sample('m', Date.now(), index % 3 === 0, 1);
        samples += 1;
      }
      await vi.advanceTimersByTimeAsync(10);
    }
    await reporter.flush();
    expect(sent.length).toBeLessThanOrEqual(51);
    expect(sent.reduce((sum, { report }) => sum + report.samples.length, 0)).toBe(samples);
  });

  test('carry their samples in the order of their stamps', async () => {
    void fail(3);
    void succeed(1);
    void fail(2);
    await vi.advanceTimersByTimeAsync(50);
    expect(sent[0]?.report.samples.map(([at]) => at)).toEqual([1, 2, 3]);
  });

  test('resolve when they are durable, and reject when they could not be made so', async () => {
    const durable = reporter.hold('m', place('a'));
    await vi.advanceTimersByTimeAsync(50);
    await expect(durable).resolves.toBeUndefined();
    failing = 1;
    const refused = reporter.hold('m', place('b')).catch((error: unknown) => String(error));
    await vi.advanceTimersByTimeAsync(200);
    expect(await refused).toContain('Temporal is away');
  });

  test('that could not be sent go again under their own number, before newer ones', async () => {
    failing = 2;
    fail().catch(() => undefined);
    await vi.advanceTimersByTimeAsync(60);
    fail().catch(() => undefined);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(sent.map(({ report }) => report.sequence)).toEqual([1, 2]);
    expect(sent.map(({ report }) => report.samples.length)).toEqual([1, 1]);
  });

  test('are counted over all merchants and never begin anew, also after a merchant was forgotten', async () => {
    void reporter.hold('m', place('a'));
    void reporter.hold('other', place('b'));
    await vi.advanceTimersByTimeAsync(10 * MINUTE);
    void reporter.hold('m', place('a'));
    await vi.advanceTimersByTimeAsync(50);
    const numbers = sent.map(({ report }) => report.sequence);
    expect(numbers).toEqual([1, 2, 3]);
  });

  test('are all sent by a flush, as at shutdown', async () => {
    void succeed();
    void reporter.sample('other', Date.now(), false, 1);
    await reporter.flush();
    expect(sent.map(({ merchantId }) => merchantId).toSorted()).toEqual(['m', 'other']);
  });
});

test('R40 R64 whatever is told and however sending fails, each sample arrives once, by number', async () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('sample' as const), failed: fc.boolean() }),
    fc.record({ do: fc.constant('wait' as const), ms: fc.nat(3_000) }),
    fc.record({ do: fc.constant('break' as const), times: fc.nat(3) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      sent = [];
      failing = 0;
      const before = Date.now();
      let told = 0;
      for (const each of steps) {
        if (each.do === 'sample') {
          reporter.sample('m', before + ++told, each.failed, 1).catch(() => undefined);
        } else if (each.do === 'wait') await vi.advanceTimersByTimeAsync(each.ms);
        else failing = each.times;
      }
      failing = 0;
      await reporter.flush();
      await vi.advanceTimersByTimeAsync(10 * MINUTE);
      const arrived = sent.flatMap(({ report }) => report.samples.map(([at]) => at - before));
      expect(arrived.toSorted((a, b) => a - b)).toEqual(
        Array.from({ length: told }, (_, index) => index + 1),
      );
      const numbers = sent.map(({ report }) => report.sequence);
      expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
    }),
    { numRuns: 60 },
  );
});
