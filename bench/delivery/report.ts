import { GateReader } from '../../src/activities/gate-reader.ts';
import { Reporter } from '../../src/activities/reporter.ts';
import { reportToMerchant } from '../../src/merchants.ts';
import type { Report } from '../../src/workflows/messages.ts';
import { readEntityHistory } from '../entity-history.ts';
import { medianFigure, percentile } from '../figures.ts';
import { manyAtATime, paced, polled } from '../pace.ts';
import type { Scenario } from '../scenario.ts';
import { freshMerchant, onStand, SECRET, type Stand } from '../stand.ts';
import { inTurn } from './rounds.ts';

/** Outcomes a second that are tried, one after the other; with more, the telling at the end takes minutes. */
const RATES = [500, 1_000, 2_000, 5_000, 10_000, 20_000];
/** A rate is taken if 99 of 100 failures are durable within this. */
const DURABLE_WITHIN_MS = 1_000;
/** Failures are what makes reports frequent; so few do not open the breaker. */
const FAILED_ONE_IN = 10;
const SIGNALS_AT_A_TIME = 10;
const MOST_SIGNALS = 5;

interface Taken {
  readonly outcomes: number;
  readonly signals: number;
}

/** Outcomes of one merchant that one worker's reporter takes, beside a signal for each outcome. */
export const report: Scenario = async ({ quick, log }) =>
  await onStand(undefined, async (stand) => {
    const seconds = quick ? 2 : 10;
    const { bare, product } = await inTurn(
      quick ? 1 : 2,
      async () => await signalForEach(stand, seconds),
      async (round) => {
        let taken: Taken = { outcomes: 0, signals: 0 };
        for (const rate of RATES) {
          const next = await reported(stand, rate, seconds);
          log(`round ${round}: ${rate} outcomes/s ${next === undefined ? 'are too many' : 'are taken'}`);
          if (next === undefined) break;
          taken = next;
        }
        return taken;
      },
    );
    const outcomes = product.map((each) => each.outcomes);
    return [
      medianFigure(
        'reporter ÷ a signal for each, outcomes taken',
        '×',
        outcomes.map((value, index) => value / (bare[index]?.outcomes ?? Number.NaN)),
      ),
      medianFigure('reporter: outcomes taken', '/s', outcomes),
      medianFigure(
        'a signal for each: outcomes taken',
        '/s',
        bare.map((each) => each.outcomes),
      ),
      medianFigure(
        'reporter: signals that come out',
        '/s',
        product.map((each) => each.signals),
        { atMost: MOST_SIGNALS },
      ),
    ];
  });

/** @returns `undefined` if that many are not taken. */
async function reported(stand: Stand, perSecond: number, seconds: number): Promise<Taken | undefined> {
  const { merchantId, epoch } = await newMerchant(stand);
  const gate = new GateReader(stand.patient);
  let signals = 0;
  // Wired as the workers do it.
  const reporter = new Reporter(async (merchant, each) => {
    signals += 1;
    await reportToMerchant(stand.patient, merchant, each, async () => await gate.readFresh(merchant));
  });
  const startedAt = performance.now();
  const count = perSecond * seconds;
  const told = await paced(perSecond, count, async (index) => {
    const beganAt = performance.now();
    const failed = index % FAILED_ONE_IN === 0;
    await reporter.sample(merchantId, Date.now(), failed, epoch);
    return failed ? performance.now() - beganAt : 0;
  });
  const tookSeconds = (performance.now() - startedAt) / 1_000;
  await reporter.flush();
  const waits = told.flatMap((each) => (each.status === 'fulfilled' && each.value > 0 ? [each.value] : []));
  const arrived = await polled(
    async () => await samplesOf(stand, merchantId),
    (samples) => samples === count,
    { withinMs: 10_000 },
  );
  const isWhole = arrived === count && told.every(({ status }) => status === 'fulfilled');
  if (!isWhole || percentile(waits, 0.99) > DURABLE_WITHIN_MS) return undefined;
  return { outcomes: count / tookSeconds, signals: signals / tookSeconds };
}

async function signalForEach(stand: Stand, seconds: number): Promise<Taken> {
  const { merchantId, epoch } = await newMerchant(stand);
  const startedAt = performance.now();
  let sent = 0;
  await manyAtATime(SIGNALS_AT_A_TIME, Number.POSITIVE_INFINITY, async (index) => {
    if (performance.now() - startedAt >= seconds * 1_000) return false;
    await reportToMerchant(stand.patient, merchantId, single(index, epoch), async () => undefined);
    sent += 1;
    return true;
  });
  const perSecond = (sent * 1_000) / (performance.now() - startedAt);
  return { outcomes: perSecond, signals: perSecond };
}

function single(index: number, epoch: number): Report {
  return {
    reporter: 'bench',
    sequence: index + 1,
    samples: [[Date.now(), index % FAILED_ONE_IN === 0 ? 1 : 0, epoch]],
    trials: [],
    slowDowns: [],
    holds: [],
    left: [],
    unusedPermits: [],
  };
}

async function newMerchant({ hooks, receiver }: Stand): Promise<{ merchantId: string; epoch: number }> {
  const merchantId = freshMerchant('report');
  const merchant = hooks().merchant(merchantId);
  await merchant.setEndpoint({ url: receiver.url(merchantId), secret: SECRET });
  return { merchantId, epoch: (await merchant.breaker())?.gate.epoch ?? 0 };
}

async function samplesOf({ temporal }: Stand, merchantId: string): Promise<number> {
  const { reports } = await readEntityHistory(temporal, merchantId);
  return reports.reduce((sum, { samples }) => sum + samples, 0);
}
