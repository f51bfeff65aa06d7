import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { DeliveryHandle, DeliveryStatus } from '../../src/client.ts';
import type { DeliveryInput } from '../../src/contract.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Answer, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';
import {
  NO_BREAKER,
  readHistory,
  skipOn,
  startSkipping,
  untilStandsStill,
  type AskedPause,
  type DeliveryHistory,
} from '../support/time-skipping.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const SLOW_STEPS = [900, 3_600, 14_400, 43_200, 86_400];
const MAX_BODY_BYTES = 262_144;

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;

beforeAll(async () => {
  client = await connectTestClient(NO_BREAKER);
  workers = await startTestWorkers();
  receiver = await startReceiver((nth, { path }) => answers[path.slice(1)]?.(nth) ?? 200);
});
afterAll(async () => {
  await workers.shutdown();
  await receiver.close();
  await client.close();
});

/** How the endpoint answers the n-th attempt, by the path of the merchant's URL. */
const answers: Readonly<Record<string, (nth: number) => Answer>> = {
  rejects: () => 404,
  dead: () => 503,
  limits: (nth) => (nth < 5 ? 404 : { status: 429, headers: { 'Retry-After': '3600' } }),
};

interface Ended {
  readonly status: DeliveryStatus;
  readonly history: DeliveryHistory;
}

describe.concurrent('a delivery whose waits are skipped', { timeout: 150_000 }, () => {
  test('R10 R13 waits exactly 1, 2, 4, … 256 s on the fast ladder', async () => {
    const { status, history } = await delivered(await merchantWith('dead'));
    expect(seconds(history.ladderPauses)).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256]);
    expect(status).toMatchObject({ state: 'failed', reason: 'fast-ladder-exhausted', attempts: 10 });
  });

  test('R21 ends 48 h after the first rejection when Retry-After would wait longer', async () => {
    const { status, history } = await delivered(await merchantWith('limits'));
    const pauses = seconds(history.ladderPauses);
    expect(pauses.slice(0, -1)).toEqual([...SLOW_STEPS, ...Array<number>(6).fill(3_600)]);
    expectEndsAt(history, 2 * DAY_MS);
    expect(status).toMatchObject({
      state: 'failed',
      reason: 'slow-ladder-ceiling',
      fastFailures: 7,
      slowSteps: 5,
    });
  });

  test('R22 R50 climbs the whole slow ladder after five days without an address', async () => {
    const { status, history, whileHeld } = await fiveDaysHeld();
    expect(whileHeld).toMatchObject({ state: 'held-no-endpoint', attempts: 0, slowSteps: 0 });
    expect(Date.parse(whileHeld.heldSince ?? '') - history.acceptedAt).toBeLessThan(60_000);
    expect(seconds(history.ladderPauses)).toEqual(SLOW_STEPS);
    expect(status).toMatchObject({ state: 'failed', reason: 'slow-ladder-exhausted', attempts: 6 });
    expect(Date.parse(status.endedAt ?? '') - history.acceptedAt).toBeGreaterThan(6 * DAY_MS);
  });

  test('R47 asks by itself 20 to 40 s after it was held, then every 60 to 75 min', async () => {
    const { history } = await fiveDaysHeld();
    const [first = 0, ...further] = seconds(history.holdPauses);
    expectAllWithin([first], 20, 40);
    expectAllWithin(further, 3_600, 4_500);
    expect(further.length).toBeGreaterThanOrEqual((5 * 24 * 60) / 75 - 1);
    expect(new Set(further).size).toBeGreaterThan(further.length / 2);
  });

  test('R24 ends as expired after 30 days without an address', async () => {
    const { status, history } = await thirtyDaysHeld();
    expect(status).toMatchObject({ state: 'failed', reason: 'expired', attempts: 0, fastFailures: 0 });
    expectAllWithin(
      [Date.parse(status.endedAt ?? '') - history.acceptedAt],
      30 * DAY_MS,
      30 * DAY_MS + 10_000,
    );
  });

  test('R24 R47 keeps the history of 30 days with the largest body far under its limits', async () => {
    const { history } = await thirtyDaysHeld();
    // Asked every hour it would ask this many times; to save time it asked every four.
    const most = (30 * DAY_MS) / HOUR_MS + 1;
    const scale = most / history.holdPauses.length;
    expect(history.bytes).toBeGreaterThan(MAX_BODY_BYTES);
    expect(history.bytes * scale).toBeLessThan(5_000_000);
    expect(history.events * scale).toBeLessThan(10_000);
  });

  test('R24 ends as expired at day 30 although it is asleep in a slow step', async () => {
    const merchantId = freshMerchant();
    const delivery = await start(merchantId, { held: { askEveryMs: 12 * HOUR_MS } }, 29 * DAY_MS);
    await untilStandsStill(client.temporal, delivery);
    await rejectFromNowOn(delivery);
    const status = await delivery.result();
    const history = await readHistory(client.temporal, delivery);
    expect(seconds(history.ladderPauses).slice(0, -1)).toEqual(SLOW_STEPS.slice(0, -1));
    expectEndsAt(history, 30 * DAY_MS);
    expect(status).toMatchObject({ state: 'failed', reason: 'expired', slowSteps: 5, attempts: 5 });
  });
});

/** Held for five days of its own time, then answered 404 for good. */
const fiveDaysHeld = once(async () => {
  const merchantId = freshMerchant();
  const delivery = await start(merchantId, {}, 5 * DAY_MS);
  await untilStandsStill(client.temporal, delivery);
  const whileHeld = await delivery.status();
  await rejectFromNowOn(delivery);
  const status = await delivery.result();
  return { status, history: await readHistory(client.temporal, delivery), whileHeld };
});

/** Never given an address, with the largest body. */
const thirtyDaysHeld = once(
  async () => await delivered(freshMerchant(), { held: { askEveryMs: 4 * HOUR_MS } }, MAX_BODY_BYTES),
);

async function delivered(
  merchantId: string,
  policy: DeliveryInput['policy'] = {},
  bodyBytes?: number,
): Promise<Ended> {
  const delivery = await start(merchantId, policy, undefined, bodyBytes);
  return { status: await delivery.result(), history: await readHistory(client.temporal, delivery) };
}

async function start(
  merchantId: string,
  policy: NonNullable<DeliveryInput['policy']>,
  untilAgeMs?: number,
  bodyBytes = 0,
) {
  const body = JSON.stringify({ status: 'paid', note: '' });
  return await startSkipping(
    client.temporal,
    {
      merchantId,
      webhookId: randomUUID(),
      type: 'payment.status_changed',
      body: body.replace('""', `"${'x'.repeat(Math.max(0, bodyBytes - body.length))}"`),
      policy,
    },
    untilAgeMs === undefined ? {} : { untilAgeMs },
  );
}

async function merchantWith(path: string): Promise<string> {
  const merchantId = freshMerchant();
  await setEndpoint(merchantId, path);
  return merchantId;
}

async function setEndpoint(merchantId: string, path: string): Promise<void> {
  await client.hooks
    .merchant(merchantId)
    .setEndpoint({ url: receiver.url + path, secret: 'a secret of 20 bytes' });
}

/** Gives a merchant whose delivery stands still an address that rejects, and lets it skip again. */
async function rejectFromNowOn(delivery: DeliveryHandle): Promise<void> {
  await setEndpoint(delivery.merchantId, 'rejects');
  // Skipping sooner, it would sleep through its release until it asks by itself.
  await vi.waitFor(async () => expect(await delivery.status()).toMatchObject({ attempts: 1 }), 60_000);
  await skipOn(client.temporal, delivery);
}

function seconds(pauses: readonly AskedPause[]): number[] {
  return pauses.map((pause) => pause.seconds);
}

/** The last pause was cut to end at this age, by the delivery's own clock. */
function expectEndsAt({ acceptedAt, ladderPauses }: DeliveryHistory, ageMs: number): void {
  const last = ladderPauses.at(-1);
  if (last === undefined) throw new Error('there was no pause');
  const end = last.at + last.seconds * 1_000;
  // Around it lie the tasks that asked for the pause, and for the ceiling the first attempt.
  expectAllWithin([end - acceptedAt], ageMs, ageMs + 10_000);
}

function expectAllWithin(values: readonly number[], least: number, most: number): void {
  expect(values.filter((value) => value < least || value > most)).toEqual([]);
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}
