import { medianFigure, type Figure, type Goal } from '../figures.ts';
import type { ScenarioContext } from '../scenario.ts';
import { cpuInWords, runRound } from './round.ts';
import { betweenFloors, cpuFigures } from './rounds.ts';
import { merchantsAt, eachOnBothSides, type Side, type Sides } from './sides.ts';

/** Handed over side by side. */
const AT_A_TIME = 20;

interface Form {
  readonly merchants: number;
  readonly goal: Goal;
}

const FORMS: readonly Form[] = [
  { merchants: 1, goal: { atLeast: 0.92 } },
  { merchants: 1_000, goal: { atLeast: 0.8 } },
];

/** The product beside a bare workflow that makes one POST: CPU per delivery. */
export const floor = eachOnBothSides(FORMS, measure);

async function measure(
  sides: Sides,
  { merchants, goal }: Form,
  { quick, log }: ScenarioContext,
): Promise<Figure[]> {
  const count = quick ? Math.min(merchants, 50) : merchants;
  const deliveries = quick ? 100 : 1_000;
  const ids = await merchantsAt(sides, 'floor', count);
  const what = `${count} merchant${count === 1 ? '' : 's'}`;
  log(`${what} set up`);
  const pace = { atATime: AT_A_TIME };
  const round = (side: Side) => async (number: number) => {
    const load = { merchants: ids, path: 'floor', prefix: `r${number}-`, count: deliveries, pace };
    const result = await runRound(sides, side, load);
    log(
      `${what}, ${side.name} ${number}: ${cpuInWords(result.cpu)}, ${result.perSecond.toFixed(0)} deliveries/s`,
    );
    return result;
  };
  // Just-in-time compilers have to see the code before.
  await round(sides.bare)(0);
  await round(sides.product)(0);
  const { bare, product } = await betweenFloors(quick ? 2 : 5, round(sides.bare), round(sides.product));
  const cpus = { bare: bare.map(({ cpu }) => cpu), product: product.map(({ cpu }) => cpu) };
  return [
    ...cpuFigures(what, cpus, goal),
    medianFigure(
      `${what}: floor, rate`,
      '/s',
      bare.map(({ perSecond }) => perSecond),
    ),
    medianFigure(
      `${what}: product, rate`,
      '/s',
      product.map(({ perSecond }) => perSecond),
    ),
  ];
}
