import { medianFigure, type Figure, type Goal } from '../figures.ts';
import type { Scenario, ScenarioContext } from '../scenario.ts';
import { cpuInWords, runRound, type Round } from './round.ts';
import { betweenFloors, cpuFigures, sidesOf, type Compared } from './rounds.ts';
import { merchantsAt, withBothSides, type Side, type Sides } from './sides.ts';

/** Handed over side by side. */
const AT_A_TIME = 20;
const WARM_UP = 500;
const DELIVERIES = 1_000;

interface Form {
  readonly merchants: number;
  readonly goal: Goal;
}

const FORMS: readonly Form[] = [
  { merchants: 1, goal: { atLeast: 0.92 } },
  { merchants: 1_000, goal: { atLeast: 0.8 } },
];

/**
 * The product beside a bare workflow that makes one POST: CPU per delivery. Each round has a server and workers of its
 * own, for what a server spends on a webhook grows, in jumps, with what it has kept in memory.
 */
export const floor: readonly Scenario[] = FORMS.map(
  (form) => async (context) => await measure(form, context),
);

async function measure({ merchants, goal }: Form, context: ScenarioContext): Promise<Figure[]> {
  const count = context.quick ? Math.min(merchants, 50) : merchants;
  const what = `${count} merchant${count === 1 ? '' : 's'}`;
  const rounds: Compared<Round>[] = [];
  for (let number = 1; number <= (context.quick ? 2 : 5); number++) {
    const log = (line: string) => context.log(`${what}, ${number}: ${line}`);
    const round = async (sides: Sides) => await oneRound(sides, count, { ...context, log });
    rounds.push(...(await withBothSides(undefined, round)));
  }
  const { bare, other: product } = sidesOf(rounds);
  return [
    ...cpuFigures(what, rounds, goal),
    medianFigure(`${what}: floor, rate`, '/s', bare.map(rateOf)),
    medianFigure(`${what}: product, rate`, '/s', product.map(rateOf)),
  ];
}

function rateOf({ perSecond }: Round): number {
  return perSecond;
}

async function oneRound(
  sides: Sides,
  count: number,
  { quick, log }: ScenarioContext,
): Promise<Compared<Round>[]> {
  const merchants = await merchantsAt(sides, 'floor', count);
  const common = { merchants, path: 'floor', pace: { atATime: AT_A_TIME } };
  const of = async (side: Side, prefix: string, deliveries: number) =>
    await runRound(sides, side, { ...common, prefix, count: deliveries / (quick ? 10 : 1) });
  // Just-in-time compilers have to see the code before.
  for (const side of [sides.bare, sides.product]) await of(side, 'warm-up-', WARM_UP);
  const measured = (side: Side) => async (number: number) => {
    const round = await of(side, `r${number}-`, DELIVERIES);
    log(`${side.name}: ${cpuInWords(round.cpu)}, ${round.perSecond.toFixed(0)} deliveries/s`);
    return round;
  };
  return await betweenFloors(1, measured(sides.bare), measured(sides.product));
}
