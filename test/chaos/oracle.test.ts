import { describe, expect, test } from 'vitest';
import type { DeliveryStatus } from '../../src/policy/status.ts';
import { judge } from './oracle.ts';
import type { ChaosRecord, Sighting, ToldAttempt, ToldDelivery, ToldMerchant } from './record.ts';
import { NUMBERS } from './settings.ts';

const merchantId = 'm';
const open = { circuit: 'closed', hasEndpoint: true, isPaused: false, held: 0 } as const;
const merchant: ToldMerchant = { merchantId, stands: open, changedAt: [] };
const kill = { kind: 'worker', from: 5_000, to: 6_000 } as const;

function statusOf(webhookId: string, more: Partial<DeliveryStatus>): DeliveryStatus {
  return {
    merchantId,
    webhookId,
    type: 'payment.status_changed',
    money: false,
    state: 'delivered',
    acceptedAt: '2026-01-01T00:00:00.000Z',
    attempts: 1,
    fastFailures: 0,
    slowSteps: 0,
    ...more,
  };
}

const delivered = { kind: 'delivered', status: 200 } as const;
const failed = { kind: 'server-error', status: 500 } as const;

function attempt(number: number, at: number, more: Partial<ToldAttempt> = {}): ToldAttempt {
  return { number, from: at, to: at + 100, verdict: delivered, ...more };
}

function post(webhookId: string, number: number, at: number, more: Partial<Sighting> = {}): Sighting {
  return { merchantId, webhookId, attempt: number, at, answer: 200, isGenuine: true, ...more };
}

function told(
  webhookId: string,
  attempts: readonly ToldAttempt[],
  more: Partial<DeliveryStatus> = {},
  holds: ToldDelivery['holds'] = [],
): ToldDelivery {
  const status = statusOf(webhookId, { attempts: attempts.length, ...more });
  return { merchantId, webhookId, status, attempts, holds };
}

/** One delivered at once, one after a failure, and one that was in flight at a kill. */
function goodRecord(): ChaosRecord {
  const lost = attempt(1, 4_900, { to: 20_000, verdict: { kind: 'outcome-unknown' } });
  return recordOf(
    [
      told('a', [attempt(1, 1_000)]),
      told('b', [attempt(1, 1_000, { verdict: failed }), attempt(2, 2_000)]),
      told('c', [lost, attempt(2, 21_000)]),
    ],
    [
      post('a', 1, 1_050),
      post('b', 1, 1_050, { answer: 500 }),
      post('b', 2, 2_050),
      post('c', 1, 4_950),
      post('c', 2, 21_050),
    ],
  );
}

function recordOf(
  deliveries: readonly ToldDelivery[],
  sightings: readonly Sighting[],
  more: Partial<ChaosRecord> = {},
): ChaosRecord {
  return {
    accepted: deliveries.map(({ webhookId }) => ({ merchantId, webhookId })),
    notAccepted: 0,
    callsRepeated: 0,
    sightings,
    deliveries,
    merchants: [merchant],
    disturbances: [kill],
    crashes: [],
    endedAt: 100_000,
    ...more,
  };
}

const found = (record: ChaosRecord): string[] => judge(record).findings.map(({ what }) => what);

test('R64 a run in which all is explained has no finding, and its duplicates are counted by their cause', () => {
  const { findings, figures } = judge(goodRecord());
  expect(findings).toEqual([]);
  expect(figures).toMatchObject({ accepted: 3, delivered: 3, duplicates: 1, 'duplicate after worker': 1 });
});

describe('finds a seeded defect:', () => {
  test.for<[string, (good: ChaosRecord) => ChaosRecord, string[]]>([
    [
      'R64 delivered by its status, but never received',
      (good) => ({ ...good, sightings: good.sightings.slice(1) }),
      ['lost', 'attempts-differ'],
    ],
    [
      'R64 delivered by its status, but answered 500',
      (good) => ({ ...good, sightings: good.sightings.with(0, post('a', 1, 1_050, { answer: 500 })) }),
      ['lost', 'attempts-differ'],
    ],
    [
      'R64 a webhook that the server does not know any more',
      (good) => ({ ...good, deliveries: good.deliveries.slice(0, 2) }),
      ['not-answering'],
    ],
    [
      'R70 a webhook that could not be handed over',
      (good) => ({ ...good, notAccepted: 1 }),
      ['not-accepted'],
    ],
    [
      'R61 a wrong signature',
      (good) => ({ ...good, sightings: good.sightings.with(2, post('b', 2, 2_050, { isGenuine: false })) }),
      ['lost', 'wrong-signature'],
    ],
    [
      'R64 one attempt that posts twice',
      (good) => ({ ...good, sightings: [...good.sightings, post('a', 1, 1_080)] }),
      ['posted-twice', 'duplicate'],
    ],
    [
      'R90 a POST that nobody tells of',
      (good) => ({ ...good, sightings: [...good.sightings, post('b', 3, 2_500)] }),
      ['attempts-differ', 'duplicate'],
    ],
    [
      'R90 an attempt too many in the status',
      (good) => ({
        ...good,
        deliveries: good.deliveries.with(0, told('a', [attempt(1, 1_000)], { attempts: 2 })),
      }),
      ['attempts-differ'],
    ],
    [
      'R7 an outcome that is lost though nothing was killed',
      (good) => ({ ...good, disturbances: [] }),
      ['outcome-lost', 'duplicate'],
    ],
    [
      'R64 a POST of a webhook that was never accepted',
      (good) => ({ ...good, sightings: [...good.sightings, post('x', 1, 3_000)] }),
      ['stray-post'],
    ],
    [
      'R90 one that is attempting for ever',
      (good) => ({
        ...good,
        deliveries: good.deliveries.with(0, told('a', [attempt(1, 1_000)], { state: 'own-fault' })),
      }),
      ['stuck'],
    ],
    [
      'R10 FAILED before its budget was spent',
      (good) => ({
        ...good,
        deliveries: good.deliveries.with(
          1,
          told('b', [attempt(1, 1_000, { verdict: failed })], {
            state: 'failed',
            reason: 'fast-ladder-exhausted',
          }),
        ),
        sightings: good.sightings.toSpliced(2, 1),
      }),
      ['wrong-end'],
    ],
    [
      'R51 a room that has forgotten somebody',
      (good) => ({
        ...good,
        deliveries: good.deliveries.with(0, told('a', [], { state: 'held-no-endpoint' })),
        sightings: good.sightings.slice(1),
      }),
      ['stuck', 'room-differs'],
    ],
    ['a worker that crashes', (good) => ({ ...good, crashes: ['TypeError'] }), ['worker-crashed']],
  ])('%s', ([, seed, expected]) => {
    expect(found(seed(goodRecord()))).toEqual(expected);
  });
});

describe('R44 R48 trials', () => {
  const pause = NUMBERS.breaker.firstPauseMs;
  const trial = (number: number, at: number, permit: number) =>
    attempt(number, at, { verdict: failed, permit });
  const trials = (second: ToldAttempt, disturbances: ChaosRecord['disturbances'] = []): ChaosRecord => {
    const merchants = [{ ...merchant, stands: { ...open, isPaused: true, held: 1 } }];
    const deliveries = [told('a', [trial(1, 1_000, 1), second], { state: 'held-paused' })];
    const posts = [post('a', 1, 1_000, { answer: 500 }), post('a', 2, second.from, { answer: 500 })];
    return recordOf(deliveries, posts, { merchants, disturbances });
  };

  test.for<[string, ToldAttempt, string[]]>([
    ['a pause apart are right', trial(2, 1_000 + pause, 2), []],
    ['sooner are found', trial(2, 999 + pause, 2), ['trial-too-early']],
    ['of one permit are found', trial(2, 1_000 + pause, 1), ['permit-used-twice']],
    [
      'with a POST without a permit after them are found',
      attempt(2, 2_000, { verdict: failed }),
      ['posted-while-open'],
    ],
  ])('%s', ([, second, expected]) => {
    expect(found(trials(second))).toEqual(expected);
  });

  test('sooner are explained by a kill that has cost the first its permit', () => {
    const { findings, figures } = judge(trials(trial(2, 999 + pause, 2), [kill]));
    expect([findings, figures['trials after a lost permit']]).toEqual([[], 1]);
  });
});

describe('R46 the room', () => {
  const stay = (webhookId: string, since: number, releasedAt: number) =>
    told(webhookId, [attempt(1, releasedAt)], {}, [
      { since, registeredAt: since + 500, reason: 'no-endpoint', releasedAt },
    ]);
  const record = (...deliveries: ToldDelivery[]) =>
    recordOf(
      deliveries,
      deliveries.map(({ webhookId, attempts }) => post(webhookId, 1, attempts[0]?.from ?? 0)),
    );

  test('is woken longest held first', () => {
    expect(found(record(stay('a', 1_000, 9_000), stay('b', 2_000, 9_040)))).toEqual([]);
  });
  test('R51 woken in another order is found', () => {
    expect(found(record(stay('a', 1_000, 9_040), stay('b', 2_000, 9_000)))).toEqual(['out-of-order']);
  });
  test('keeps the place of a refusal that was lost with its worker', () => {
    const lost = attempt(1, 500, { to: 1_500, verdict: { kind: 'outcome-unknown' } });
    const kept = told('b', [lost, attempt(2, 9_000)], {}, [
      { since: 2_000, registeredAt: 2_100, reason: 'no-endpoint', releasedAt: 9_000 },
    ]);
    const posts = [post('a', 1, 9_040), post('b', 2, 9_000)];
    const disturbances = [{ kind: 'worker', from: 600, to: 700 } as const];
    expect(found(recordOf([stay('a', 1_000, 9_040), kept], posts, { disturbances }))).toEqual([]);
  });
  test('whose longest held is forgotten is found', () => {
    const forgotten = told('a', [], { state: 'held-breaker' }, [
      { since: 1_000, registeredAt: 1_500, reason: 'breaker' },
    ]);
    const overtaken = recordOf([forgotten, stay('b', 2_000, 9_000)], [post('b', 1, 9_000)]);
    expect(found(overtaken)).toEqual(['stuck', 'out-of-order', 'room-differs']);
  });
});
