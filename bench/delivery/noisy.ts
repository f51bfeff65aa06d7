import { medianFigure, percentile, type Figure } from '../figures.ts';
import type { Load } from '../processes/load.ts';
import type { Scenario, ScenarioContext } from '../scenario.ts';
import { freshMerchant, SECRET } from '../stand.ts';
import { runRound } from './round.ts';
import { mustBeSteady } from './rounds.ts';
import { merchantsAt, withBothSides, type Sides } from './sides.ts';

const HEALTHY = 99;
/** Every fifth webhook is for the one that hangs. */
const ONE_IN = 5;
const AT_A_TIME = 20;
const PATH = 'healthy';
/** Healthy p99 may be this much longer beside the hanging one. */
const MOST_TIMES = 2;
const MOST_BEYOND_MS = 2_000;

interface Form {
  readonly webhooks: number;
  /** Handed over as fast as it goes, once; otherwise at half of what the machine can do, twice. */
  readonly unpaced?: true;
}

interface Result {
  readonly cpuMs: number;
  readonly p50: number;
  readonly p99: number;
}

const FORMS: readonly Form[] = [{ webhooks: 2_000 }, { webhooks: 4_000 }, { webhooks: 2_000, unpaced: true }];

/** 99 healthy merchants with and without one whose endpoint hangs and that gets a fifth of all webhooks. */
export const noisy: readonly Scenario[] = FORMS.map(
  (form) => async (context) => await measure(form, context),
);

let found: Promise<number> | undefined;

/** What the machine can do a second; found once, by whoever needs it first. */
async function capacity({ quick, log }: ScenarioContext): Promise<number> {
  found ??= withBothSides(undefined, async (sides) => await capacityOf(sides, quick ? 100 : 1_000));
  const perSecond = await found;
  log(`capacity ${perSecond.toFixed(1)}/s`);
  return perSecond;
}

async function capacityOf(sides: Sides, count: number): Promise<number> {
  const merchants = await merchantsAt(sides, PATH, HEALTHY);
  const load = { merchants, path: PATH, count, pace: { atATime: AT_A_TIME } };
  await runRound(sides, sides.product, { ...load, prefix: 'warm-up' });
  const { perSecond } = await runRound(sides, sides.product, { ...load, prefix: 'capacity' });
  return perSecond;
}

async function measure(form: Form, context: ScenarioContext): Promise<Figure[]> {
  const { unpaced } = form;
  const { quick, log } = context;
  const webhooks = form.webhooks / (quick ? 10 : 1);
  const what = `${webhooks} webhooks${unpaced === true ? ' unpaced' : ''}`;
  const perSecond = unpaced === true ? undefined : (await capacity(context)) / 2;
  const pace = perSecond === undefined ? { atATime: AT_A_TIME } : { perSecond };
  const run = async (withHanging: boolean): Promise<Result> => {
    const result = await withBothSides(
      undefined,
      async (sides) => await healthyLatency(sides, webhooks, pace, withHanging),
    );
    log(`${what}, ${withHanging ? 'with' : 'without'} the hanging one: p99 ${result.p99.toFixed(0)} ms`);
    return result;
  };
  const [without, beside]: [Result[], Result[]] = [[], []];
  for (let round = 1; round <= (quick || unpaced === true ? 1 : 2); round++) {
    without.push(await run(false));
    beside.push(await run(true));
  }
  for (const results of [without, beside]) {
    mustBeSteady(
      what,
      results.map(({ cpuMs }) => cpuMs),
    );
  }
  const beyond = beside.map(({ p99 }, index) => p99 - (without[index]?.p99 ?? Number.NaN));
  const times = beside.map(({ p99 }, index) => p99 / (without[index]?.p99 ?? Number.NaN));
  const goals = unpaced !== true;
  return [
    ...(perSecond === undefined ? [] : [{ what: `${what}: pace`, value: perSecond, unit: '/s' }]),
    medianFigure(
      `${what}: healthy p99 with ÷ without`,
      '×',
      times,
      goals ? { atMost: MOST_TIMES } : undefined,
    ),
    medianFigure(
      `${what}: healthy p99 with − without`,
      'ms',
      beyond,
      goals ? { atMost: MOST_BEYOND_MS } : undefined,
    ),
    ...(['p50', 'p99'] as const).flatMap((share) => [
      medianFigure(
        `${what}: healthy ${share} without`,
        'ms',
        without.map((each) => each[share]),
      ),
      medianFigure(
        `${what}: healthy ${share} with`,
        'ms',
        beside.map((each) => each[share]),
      ),
    ]),
  ];
}

async function healthyLatency(
  sides: Sides,
  webhooks: number,
  pace: Load['pace'],
  withHanging: boolean,
): Promise<Result> {
  const healthy = await merchantsAt(sides, PATH, HEALTHY);
  await runRound(sides, sides.product, {
    merchants: healthy,
    path: PATH,
    prefix: 'warm-up',
    count: HEALTHY,
    pace: { atATime: AT_A_TIME },
  });
  const hanging = freshMerchant('hanging');
  await sides.receiver.answer(hanging, 'hang');
  await sides
    .hooks()
    .merchant(hanging)
    .setEndpoint({ url: sides.receiver.url(hanging), secret: SECRET });
  const merchants = Array.from({ length: HEALTHY * ONE_IN }, (_, index) => {
    if (index % ONE_IN !== 0) return healthy[index % HEALTHY] ?? null;
    return withHanging ? hanging : null;
  });
  const load = { merchants, path: PATH, prefix: 'w', count: webhooks, pace, apart: hanging };
  const { latencies, cpu } = await runRound(sides, sides.product, load);
  return { cpuMs: cpu.sum, p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99) };
}
