import type { PolicyOverrides } from '../../src/policy/policy.ts';
import type { Transition } from '../../src/workflows/merchant-state.ts';
import type { Figure } from '../figures.ts';
import { polled, until } from '../pace.ts';
import type { Arrival } from '../processes/receiver.ts';
import type { Scenario } from '../scenario.ts';
import { onStand, type Stand } from '../stand.ts';
import {
  newMerchant,
  openBreaker,
  submit,
  untilHeld,
  type MerchantUnderTest,
} from './merchant-under-test.ts';

const CYCLES = 3;

interface Size {
  readonly held: number;
  /** R47: the shortened like of asking every 60 to 75 minutes. */
  readonly askEveryMs: number;
  /** R51. */
  readonly places: number;
  /** R46. */
  readonly perSecond: number;
}

const usual: Size = { held: 1_000, askEveryMs: 60_000, places: 800, perSecond: 10 };
const large: Size = { held: 10_000, askEveryMs: 600_000, places: 8_000, perSecond: 25 };

function policyOf({ askEveryMs, places, perSecond }: Size): PolicyOverrides {
  return {
    attemptTimeoutMs: 2_000,
    fast: { firstPauseMs: 1 },
    breaker: { firstPauseMs: 5_000, longestPauseMs: 10_000, permitMs: 15_000 },
    held: { askEveryMs, askEverySpreadMs: askEveryMs / 4 },
    room: { places },
    drain: { perSecond },
  };
}

/** Many held while the endpoint hangs, more than the room holds: the trials, then the drain. */
export const outage: Scenario = async ({ full, log }) =>
  await onStand(policyOf(usual), async (stand) => [
    ...(await outageOf(stand, usual, log)),
    ...(await fasterDrain(stand, log)),
    ...(full ? await outageOf(stand, large, log) : []),
  ]);

async function outageOf(stand: Stand, size: Size, log: (line: string) => void): Promise<Figure[]> {
  const policy = policyOf(size);
  const { perSecond } = size;
  const client = stand.hooks(policy);
  const { receiver } = stand;
  const under = await newMerchant(stand, 'outage', policy);
  const { merchantId, merchant } = under;
  await receiver.answer(merchantId, 'hang');
  const openers = await openBreaker(client, under);
  await submit(client, merchantId, 'w', size.held - openers);
  await untilHeld(client, merchantId, 'w', size.held - openers);
  const inRoom = (await merchant.breaker())?.held ?? 0;
  log(`${size.held} held, ${inRoom} of them in the room`);

  const from = await nextTrialFailed(under, Date.now());
  let to = from;
  for (let cycle = 0; cycle < CYCLES; cycle++) to = await nextTrialFailed(under, to);
  const requests = (await receiver.arrivals(merchantId)).filter(({ at }) => at > from && at <= to).length;
  log(`${requests} requests in ${CYCLES} cycles`);

  await receiver.answer(merchantId, 200);
  const arrivals = await allArrivals(stand, merchantId, size.held);
  const [passed, ...drained] = arrivals;
  const afterMs = (drained.at(-1)?.at ?? 0) - (passed?.at ?? 0);
  const what = String(size.held);
  return [
    {
      what: `${what} held: requests in ${CYCLES} cycles`,
      value: requests,
      unit: '',
      goal: { exactly: CYCLES },
    },
    { what: `${what} held: in the room at recovery`, value: inRoom, unit: '' },
    {
      what: `${what} held: drain of the room at ${perSecond}/s`,
      value: paceOf(drained.slice(0, inRoom - 1)),
      unit: '/s',
      goal: { between: [0.9 * perSecond, 1.1 * perSecond] },
    },
    ...whole(what, arrivals, size.held),
    {
      what: `${what} held: recovery → last arrival, beyond ${size.held / perSecond} s at the pace`,
      value: afterMs / 1_000 - size.held / perSecond,
      unit: 's',
      goal: { atMost: (1.25 * size.askEveryMs) / 1_000 },
    },
  ];
}

async function fasterDrain(stand: Stand, log: (line: string) => void): Promise<Figure[]> {
  const policy = policyOf({ ...usual, places: usual.held, perSecond: large.perSecond });
  const client = stand.hooks(policy);
  const { merchantId, merchant } = await newMerchant(stand, 'drain', policy);
  await merchant.pause();
  await submit(client, merchantId, 'w', usual.held);
  await until('all are in the room', async () => (await merchant.breaker())?.held === usual.held);
  log(`${usual.held} held by a pause`);
  await merchant.resume();
  const arrivals = await allArrivals(stand, merchantId, usual.held);
  const what = `${usual.held} paused`;
  return [
    { what: `${what}: drain at ${large.perSecond}/s`, value: paceOf(arrivals), unit: '/s' },
    ...whole(what, arrivals, usual.held),
  ];
}

/** When the first trial after `since` failed. */
async function nextTrialFailed({ merchant }: MerchantUnderTest, since: number): Promise<number> {
  const isNext = ({ event, at }: Transition) => event === 'trial-failed' && at > since;
  const find = async () => (await merchant.breaker())?.transitions.find(isNext);
  const transition = await polled(find, (found) => found !== undefined, { everyMs: 200 });
  if (transition === undefined) throw new Error('no trial within a minute');
  return transition.at;
}

/** The requests that were answered 200, when all have come or it is too late for the rest. */
async function allArrivals(
  { receiver }: Stand,
  merchantId: string,
  count: number,
): Promise<readonly Arrival[]> {
  const answered = async () => (await receiver.arrivals(merchantId)).filter(({ answer }) => answer === 200);
  return await polled(answered, (arrivals) => distinct(arrivals) >= count, {
    withinMs: 30 * 60_000,
    everyMs: 2_000,
  });
}

function whole(what: string, arrivals: readonly Arrival[], count: number): Figure[] {
  const once = distinct(arrivals);
  return [
    { what: `${what}: lost`, value: count - once, unit: '', goal: { exactly: 0 } },
    { what: `${what}: sent twice`, value: arrivals.length - once, unit: '', goal: { exactly: 0 } },
  ];
}

function distinct(arrivals: readonly Arrival[]): number {
  return new Set(arrivals.map(({ webhookId }) => webhookId)).size;
}

function paceOf(arrivals: readonly Arrival[]): number {
  const spanMs = (arrivals.at(-1)?.at ?? 0) - (arrivals[0]?.at ?? 0);
  return ((arrivals.length - 1) * 1_000) / spanMs;
}
