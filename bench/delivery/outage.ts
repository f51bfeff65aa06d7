import { setTimeout as sleep } from 'node:timers/promises';
import { medianFigure, type Figure, type Goal } from '../figures.ts';
import { polled } from '../pace.ts';
import type { Arrival } from '../processes/receiver.ts';
import type { Scenario, ScenarioContext } from '../scenario.ts';
import { inTurn } from './rounds.ts';
import { merchantsAt, withBothSides, type Side, type Sides } from './sides.ts';

const DRAIN_PER_SECOND = 10;
/** The last of a drain arrives within this beyond its pace. */
const DRAIN_SPARE_SECONDS = 2;
const AT_A_TIME = 20;
const ARRIVED_WITHIN_MS = 30 * 60_000;

interface Form {
  readonly webhooks: number;
  readonly attempts: Goal;
}

interface Outage {
  readonly attempts: number;
  /** From the recovery to the last arrival. */
  readonly lastAfterSeconds: number;
  /** From the first arrival after the recovery, which is the trial's, to the last. */
  readonly drainSeconds: number;
  readonly lost: number;
  readonly twice: number;
}

/**
 * An endpoint that has been idle answers 500 for a minute while webhooks come, all at once, and then recovers; beside
 * the bare engine, which tries each again by Temporal's own retries. The merchant is new: its window is as empty as
 * after five idle minutes.
 */
export const outage: Scenario = async (context) =>
  await withBothSides({ drain: { perSecond: DRAIN_PER_SECOND } }, async (sides) => {
    const forms: readonly Form[] = [
      { webhooks: 20, attempts: { atMost: 15 } },
      { webhooks: context.quick ? 100 : 1_000, attempts: { atMost: 40 } },
    ];
    const figures: Figure[] = [];
    for (const form of forms) figures.push(...(await measure(sides, form, context)));
    return figures;
  });

async function measure(
  sides: Sides,
  { webhooks, attempts: goal }: Form,
  { quick, log }: ScenarioContext,
): Promise<Figure[]> {
  const round = (side: Side) => async (number: number) => {
    const path = `outage-${side.name}-${webhooks}-${number}`;
    const result = await oneOutage(sides, side, path, webhooks, quick ? 20 : 60);
    log(
      `${webhooks} webhooks, ${side.name} ${number}: ${result.attempts} attempts during the outage, ` +
        `the last arrives ${result.lastAfterSeconds.toFixed(1)} s after it`,
    );
    return result;
  };
  const { bare, product } = await inTurn(quick ? 1 : 2, round(sides.bare), round(sides.product));
  const what = `${webhooks} webhooks`;
  const ratios = product.map(({ attempts }, index) => attempts / (bare[index]?.attempts ?? Number.NaN));
  const of = (name: string, rounds: readonly Outage[]) => [
    medianFigure(
      `${what}: ${name}, recovery → last arrival`,
      's',
      rounds.map(({ lastAfterSeconds }) => lastAfterSeconds),
    ),
    medianFigure(
      `${what}: ${name}, lost`,
      '',
      rounds.map(({ lost }) => lost),
      { exactly: 0 },
    ),
    medianFigure(
      `${what}: ${name}, sent twice`,
      '',
      rounds.map(({ twice }) => twice),
    ),
  ];
  return [
    medianFigure(
      `${what}: product, attempts during the outage`,
      '',
      product.map(({ attempts }) => attempts),
      goal,
    ),
    medianFigure(
      `${what}: floor, attempts during the outage`,
      '',
      bare.map(({ attempts }) => attempts),
    ),
    medianFigure(`${what}: product ÷ floor, attempts during the outage`, '×', ratios),
    medianFigure(
      `${what}: product, trial → last arrival, beyond the drain's pace`,
      's',
      product.map(({ drainSeconds }) => drainSeconds - (webhooks - 1) / DRAIN_PER_SECOND),
      { atMost: DRAIN_SPARE_SECONDS },
    ),
    medianFigure(
      `${what}: product, drain`,
      '/s',
      product.map(({ drainSeconds }) => (webhooks - 1) / drainSeconds),
    ),
    ...of('product', product),
    ...of('floor', bare),
  ];
}

async function oneOutage(
  sides: Sides,
  side: Side,
  path: string,
  webhooks: number,
  seconds: number,
): Promise<Outage> {
  const { receiver } = sides;
  const merchants = side.name === 'product' ? await merchantsAt(sides, path, 1) : ['bare'];
  await receiver.answer(path, 500);
  const recovery = sleep(seconds * 1_000).then(async () => {
    await receiver.answer(path, 200);
    return Date.now();
  });
  const load = { merchants, url: receiver.url(path), prefix: `${path}-`, count: webhooks };
  await side.submit({ ...load, pace: { atATime: AT_A_TIME } });
  const recoveredAt = await recovery;
  const answered = async () => (await receiver.arrivals(path)).filter(({ answer }) => answer === 200);
  const arrivals = await polled(answered, (seen) => distinct(seen) >= webhooks, {
    withinMs: ARRIVED_WITHIN_MS,
    everyMs: 1_000,
  });
  const [firstAt = 0, lastAt = 0] = [arrivals[0]?.at, arrivals.at(-1)?.at];
  return {
    attempts: (await receiver.arrivals(path)).filter(({ answer }) => answer === 500).length,
    lastAfterSeconds: (lastAt - recoveredAt) / 1_000,
    drainSeconds: (lastAt - firstAt) / 1_000,
    lost: webhooks - distinct(arrivals),
    twice: arrivals.length - distinct(arrivals),
  };
}

function distinct(arrivals: readonly Arrival[]): number {
  return new Set(arrivals.map(({ webhookId }) => webhookId)).size;
}
