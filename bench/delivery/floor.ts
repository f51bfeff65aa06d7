import { setTimeout as sleep } from 'node:timers/promises';
import { medianFigure, type Figure, type Goal } from '../figures.ts';
import { until } from '../pace.ts';
import type { Scenario } from '../scenario.ts';
import { cpuFigures, inTurn, type Rounds } from './rounds.ts';
import {
  cpuOf,
  idleCpu,
  merchantsAt,
  perUnit,
  untilNoneRuns,
  withBothSides,
  type Cpu,
  type Side,
  type Sides,
} from './sides.ts';

/** Handed over side by side. */
const AT_A_TIME = 20;
/** A success of a healthy merchant is reported within 60 s: what that costs belongs to the delivery. */
const REPORTED_WITHIN_MS = 63_000;

interface Form {
  readonly merchants: number;
  readonly deliveries: number;
  readonly goal: Goal;
}

/** What one of both uses for a delivery, and how fast it is when it gets as much as it can take. */
interface Round extends Cpu {
  readonly perSecond: number;
}

/** The product beside a bare workflow that makes one POST: CPU per delivery. */
export const floor: Scenario = async ({ quick, log }) => {
  const rounds = quick ? 2 : 5;
  const forms: readonly Form[] = [
    { merchants: 1, deliveries: quick ? 200 : 1_000, goal: { atLeast: 0.92 } },
    { merchants: quick ? 50 : 1_000, deliveries: quick ? 200 : 2_000, goal: { atLeast: 0.8 } },
  ];
  const figures: Figure[] = [];
  for (const form of forms) {
    figures.push(
      ...(await withBothSides(undefined, async (sides) => await measure(sides, form, rounds, log))),
    );
  }
  return figures;
};

async function measure(
  sides: Sides,
  { merchants: count, deliveries, goal }: Form,
  roundCount: number,
  log: (line: string) => void,
): Promise<Figure[]> {
  const merchants = await merchantsAt(sides, 'floor', count);
  const what = `${count} merchant${count === 1 ? '' : 's'}`;
  log(`${what} set up`);
  const idle = {
    bare: await idleCpu(sides, sides.bare, 10),
    product: await idleCpu(sides, sides.product, 10),
  };
  const round = (side: Side) => async (number: number) => {
    const result = await oneRound(sides, side, merchants, `r${number}-`, deliveries, idle[side.name]);
    log(`${what}, ${side.name} ${number}: ${inWords(result)}`);
    return result;
  };
  // Just-in-time compilers have to see the code before.
  await inTurn(
    1,
    async () => await round(sides.bare)(0),
    async () => await round(sides.product)(0),
  );
  const rounds: Rounds<Round> = await inTurn(roundCount, round(sides.bare), round(sides.product));
  return [
    ...cpuFigures(what, rounds, goal),
    medianFigure(
      `${what}: floor, rate`,
      '/s',
      rounds.bare.map(({ perSecond }) => perSecond),
    ),
    medianFigure(
      `${what}: product, rate`,
      '/s',
      rounds.product.map(({ perSecond }) => perSecond),
    ),
  ];
}

async function oneRound(
  sides: Sides,
  side: Side,
  merchants: readonly string[],
  prefix: string,
  count: number,
  idle: Cpu,
): Promise<Round> {
  const { receiver } = sides;
  const path = side.name === 'product' ? 'floor' : 'bare';
  const arrived = await receiver.count(path);
  const before = await cpuOf(sides, side);
  const startedAt = performance.now();
  await side.submit({ merchants, url: receiver.url(path), prefix, count, pace: { atATime: AT_A_TIME } });
  await until('all have arrived', async () => (await receiver.count(path)) >= arrived + count, {
    withinMs: 10 * 60_000,
  });
  const perSecond = (count * 1_000) / (performance.now() - startedAt);
  await untilNoneRuns(sides, side);
  if (side.name === 'product') await sleep(REPORTED_WITHIN_MS);
  const after = await cpuOf(sides, side);
  const seconds = (performance.now() - startedAt) / 1_000;
  return { ...withoutIdle(perUnit(before, after, count), idle, seconds / count), perSecond };
}

function withoutIdle(used: Cpu, idle: Cpu, seconds: number): Cpu {
  const worker = used.worker - idle.worker * seconds;
  if (used.server === undefined || idle.server === undefined) return { worker, sum: worker };
  const server = used.server - idle.server * seconds;
  return { worker, server, sum: worker + server };
}

function inWords({ sum, worker, server, perSecond }: Round): string {
  const ofServer = server === undefined ? '' : ` (worker ${worker.toFixed(1)}, server ${server.toFixed(1)})`;
  return `${sum.toFixed(1)} ms per delivery${ofServer}, ${perSecond.toFixed(0)}/s`;
}
