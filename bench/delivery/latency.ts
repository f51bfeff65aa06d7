import { medianFigure, percentile, type Figure, type Goal } from '../figures.ts';
import type { ScenarioContext } from '../scenario.ts';
import { cpuInWords, runRound, type Round } from './round.ts';
import { betweenFloors, floorOf, mustBeSteady, sidesOf } from './rounds.ts';
import { merchantsAt, eachOnBothSides, type Side, type Sides } from './sides.ts';

interface Form {
  readonly merchants: number;
  readonly perSecond: number;
  readonly goal?: Goal;
}

const FORMS: readonly Form[] = [
  { merchants: 1, perSecond: 10, goal: { atMost: 5 } },
  { merchants: 1, perSecond: 20 },
  { merchants: 100, perSecond: 10 },
];

/** From hand-over to arrival, at a steady rate that leaves the machine room. */
export const latency = eachOnBothSides(FORMS, measure);

async function measure(
  sides: Sides,
  { merchants: count, perSecond, goal }: Form,
  { quick, log }: ScenarioContext,
): Promise<Figure[]> {
  const path = `latency-${count}-${perSecond}`;
  const merchants = await merchantsAt(sides, path, count);
  const what = `${count} merchant${count === 1 ? '' : 's'}, ${perSecond}/s`;
  const deliveries = perSecond * (quick ? 5 : 20);
  const round = (side: Side) => async (number: number) => {
    const load = { merchants, path, prefix: `r${number}-`, count: deliveries, pace: { perSecond } };
    const result = await runRound(sides, side, load);
    log(`${what}, ${side.name} ${number}: p50 ${p50(result)} ms, ${cpuInWords(result.cpu)}`);
    return result;
  };
  await round(sides.bare)(0);
  await round(sides.product)(0);
  const rounds = await betweenFloors(quick ? 2 : 5, round(sides.bare), round(sides.product));
  const { bare, other: product } = sidesOf(rounds);
  for (const [name, each] of Object.entries({ bare, product })) {
    mustBeSteady(
      `${what}, ${name}`,
      each.map(({ cpu }) => cpu.sum),
    );
  }
  const added = rounds.map((one) => p50(one.other) - floorOf(one, p50));
  const ratios = rounds.map((one) => p50(one.other) / floorOf(one, p50));
  return [
    medianFigure(`${what}: product − floor, p50`, 'ms', added, goal),
    medianFigure(`${what}: product ÷ floor, p50`, '×', ratios),
    medianFigure(`${what}: floor, p50`, 'ms', bare.map(p50)),
    medianFigure(`${what}: product, p50`, 'ms', product.map(p50)),
    medianFigure(`${what}: floor, p99`, 'ms', bare.map(p99)),
    medianFigure(`${what}: product, p99`, 'ms', product.map(p99)),
  ];
}

function p50({ latencies }: Round): number {
  return percentile(latencies, 0.5);
}

function p99({ latencies }: Round): number {
  return percentile(latencies, 0.99);
}
