import { execFile } from 'node:child_process';
import { createReadStream, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, expect, inject, test, vi } from 'vitest';
import type { MerchantHandle, Webhook } from '../../src/client.ts';
import { startReceiver, type Received, type Receiver } from '../../test/support/receiver.ts';
import { connectTestClient, freshMerchant, type TestClient } from '../../test/support/stack.ts';

const EACH = 20;
const CARD = '4242424242424242';
const SECRET = 'a secret nobody may read';
const { pids, postgres } = inject('topology');
const money = { type: 'payment.status_changed', body: `{"card":"${CARD}"}` };

type Situation = 'paused' | 'open' | 'asleep' | 'in flight';
type Killed = { readonly process: string; readonly signal: NodeJS.Signals };

/** An open breaker stays open until somebody resets it, and a ladder's first pause outlasts a restart. */
let patient: TestClient;
/** What was in flight at a kill is tried again soon. */
let brisk: TestClient;
let receiver: Receiver;
let merchants: Record<Situation | 'handed over meanwhile', MerchantHandle>;
let accepted: Map<string, string[]>;

beforeAll(async () => {
  const lost = { attemptTimeoutMs: 3_000, attemptOverheadMs: 3_000 };
  patient = await connectTestClient({
    ...lost,
    fast: { firstPauseMs: 45_000 },
    breaker: { firstPauseMs: 1_200_000, longestPauseMs: 1_200_000 },
  });
  brisk = await connectTestClient({ ...lost, breaker: { firstPauseMs: 3_000, longestPauseMs: 3_000 } });
});
afterAll(async () => {
  await Promise.all([patient.close(), brisk.close()]);
});
beforeEach(async () => {
  receiver = await startReceiver();
  accepted = new Map();
  merchants = {
    paused: await merchantOf(patient),
    open: await merchantOf(patient),
    asleep: await merchantOf(patient),
    'in flight': await merchantOf(brisk),
    'handed over meanwhile': await merchantOf(brisk),
  };
  return async () => await receiver.close();
});

async function merchantOf({ hooks }: TestClient): Promise<MerchantHandle> {
  const merchantId = freshMerchant();
  const merchant = hooks.merchant(merchantId);
  await merchant.setEndpoint({ url: receiver.url + merchantId, secret: SECRET });
  return merchant;
}

/** R64: hands over until it is accepted, as a service does. */
async function handOver(
  { hooks }: TestClient,
  { merchantId }: MerchantHandle,
  webhookId: string,
): Promise<void> {
  const webhook: Webhook = { merchantId, webhookId, ...money };
  await vi.waitFor(async () => await hooks.deliver(webhook), { timeout: 180_000, interval: 500 });
  accepted.set(merchantId, [...(accepted.get(merchantId) ?? []), webhookId]);
}

async function handOverAll(client: TestClient, merchant: MerchantHandle): Promise<void> {
  const ids = Array.from({ length: EACH }, (_, nth) => `w${nth}`);
  await Promise.all(ids.map(async (id) => await handOver(client, merchant, id)));
}

function received({ merchantId }: MerchantHandle): Received[] {
  return receiver.received.filter(({ path }) => path === `/${merchantId}`);
}

function distinct(merchant: MerchantHandle): number {
  return new Set(received(merchant).map(({ headers }) => headers['x-webhook-id'])).size;
}

async function until(assertion: () => void | Promise<void>): Promise<void> {
  await vi.waitFor(assertion, { timeout: 180_000, interval: 250 });
}

/** Who is held by an operator, by the breaker, asleep in a ladder, and at the receiver. */
async function bringAbout(): Promise<void> {
  const { paused, open, asleep, 'in flight': inFlight } = merchants;
  const first = new Set<string>();
  receiver.answer((_, { path, headers }) => {
    if (path === `/${open.merchantId}`) return 500;
    if (path === `/${inFlight.merchantId}`) return 'timeout';
    const id = `${path} ${String(headers['x-webhook-id'])}`;
    if (path !== `/${asleep.merchantId}` || first.has(id)) return 200;
    first.add(id);
    return 503;
  });
  await paused.pause({ by: 'ann' });
  await handOverAll(patient, paused);
  await handOverAll(patient, open);
  // One at a time: five failures open a breaker, and what fails is asleep.
  for (let nth = 0; nth < 4; nth++) await handOver(patient, asleep, `w${nth}`);
  await until(() => expect(received(asleep)).toHaveLength(4));
  await until(async () => {
    const status = await open.breaker();
    expect(status).toMatchObject({ gate: { circuit: { state: 'open' } } });
    // Nobody passes any more.
    expect(distinct(open) + (status?.held ?? 0)).toBe(EACH);
  });
  await until(async () => expect(await paused.breaker()).toMatchObject({ held: EACH }));
  await handOverAll(brisk, inFlight);
  await until(() => expect(received(inFlight).length).toBeGreaterThan(0));
}

const pidOf = (process: string) => Number(readFileSync(join(pids, process), 'utf8'));

/** Kills and waits until it was started anew. */
async function killAll(killed: readonly Killed[]): Promise<void> {
  const before = killed.map(({ process: name }) => pidOf(name));
  for (const [index, { signal }] of killed.entries()) process.kill(before[index] ?? 0, signal);
  for (const [index, { process: name }] of killed.entries()) {
    await until(() => expect(pidOf(name)).not.toBe(before[index]));
  }
}

/** Each that was accepted: its end, and how often the receiver saw it. */
async function expectAllDelivered(): Promise<void> {
  for (const [merchantId, ids] of accepted) {
    const ends = await Promise.all(
      ids.map(async (id) => {
        const delivery = patient.hooks.delivery(merchantId, id);
        return await vi.waitFor(async () => (await delivery.result()).state, {
          timeout: 180_000,
          interval: 500,
        });
      }),
    );
    expect(ends).toEqual(ids.map(() => 'delivered'));
    const seen = receiver.received.filter(({ path }) => path === `/${merchantId}`);
    const ofIds = new Set(seen.map(({ headers }) => String(headers['x-webhook-id'])));
    expect([...ofIds].sort()).toEqual(ids.toSorted());
  }
}

const rounds: readonly { readonly what: string; readonly killed: readonly Killed[] }[] = [
  { what: 'the Temporal server', killed: [{ process: 'temporal', signal: 'SIGKILL' }] },
  { what: 'PostgreSQL, at once', killed: [{ process: 'postgresql', signal: 'SIGQUIT' }] },
  { what: 'PostgreSQL, by SIGKILL', killed: [{ process: 'postgresql', signal: 'SIGKILL' }] },
  {
    what: 'PostgreSQL, the Temporal server and both workers',
    killed: ['postgresql', 'temporal', 'worker-1', 'worker-2'].map((process) => ({
      process,
      signal: 'SIGKILL',
    })),
  },
];

test.each(rounds)(
  'R51 R64 D1 D5 $what killed: held, asleep, in flight and handed over meanwhile, all are delivered',
  async ({ killed }) => {
    const { paused, open, asleep, 'in flight': inFlight, 'handed over meanwhile': meanwhile } = merchants;
    await bringAbout();
    const [postsToPaused, postsToOpen] = [received(paused).length, received(open).length];
    const handingOver = handOverAll(brisk, meanwhile);
    await killAll(killed);
    await handOver(brisk, meanwhile, 'after');
    await handingOver;

    // What was held is held, for the same reason, and nobody was asked meanwhile.
    await until(async () => {
      expect(await paused.breaker()).toMatchObject({ held: EACH, gate: { paused: { by: 'ann' } } });
      expect(await open.breaker()).toMatchObject({ gate: { circuit: { state: 'open' } } });
    });
    expect([received(paused).length, received(open).length]).toEqual([postsToPaused, postsToOpen]);

    receiver.answer(() => 200);
    await paused.resume();
    await open.resetBreaker({ by: 'ann' });
    await expectAllDelivered();
    expect(distinct(asleep)).toBe(4);
    // Twice only what was in flight.
    for (const merchant of [paused, meanwhile]) {
      expect(received(merchant).length - distinct(merchant)).toBeLessThanOrEqual(EACH);
    }
    expect(received(inFlight).length).toBeGreaterThanOrEqual(EACH);
  },
);

test('R63 no table of the database holds a body or a secret in clear', async () => {
  const { merchantId } = merchants.paused;
  await handOver(patient, merchants.paused, 'w');
  await expectAllDelivered();
  const folder = await mkdtemp(join(tmpdir(), 'hookladder-dump-'));
  const found: Record<string, boolean> = {};
  for (const database of ['temporal', 'temporal_visibility']) {
    const file = join(folder, database);
    await promisify(execFile)(join(postgres.bin, 'pg_dump'), ['--file', file, database], {
      env: postgres.env,
    });
    for (const [what, text] of Object.entries({ card: CARD, secret: SECRET, merchant: merchantId })) {
      found[`${database} ${what}`] = await contains(file, waysToWrite(text));
    }
  }
  await rm(folder, { recursive: true });
  // The merchant's id is a search attribute: that it is found shows that the search finds.
  expect(found).toEqual({
    'temporal card': false,
    'temporal secret': false,
    'temporal merchant': true,
    'temporal_visibility card': false,
    'temporal_visibility secret': false,
    'temporal_visibility merchant': true,
  });
});

function waysToWrite(text: string): string[] {
  const bytes = Buffer.from(text);
  // The last characters of base64 depend on what follows.
  return [text, bytes.toString('hex'), bytes.toString('base64').slice(0, -4)];
}

async function contains(file: string, needles: readonly string[]): Promise<boolean> {
  let rest = '';
  for await (const chunk of createReadStream(file, { encoding: 'latin1', highWaterMark: 2 ** 20 })) {
    const text = rest + String(chunk);
    if (needles.some((needle) => text.includes(needle))) return true;
    rest = text.slice(-200);
  }
  return false;
}
