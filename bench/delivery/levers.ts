import type { Figure } from '../figures.ts';
import type { ScenarioContext } from '../scenario.ts';
import { cpuInWords, runRound, type RoundLoad } from './round.ts';
import { betweenFloors, cpuFigures } from './rounds.ts';
import { eachOnBothSides, type Sides } from './sides.ts';

const AT_A_TIME = 20;

/** A way to make the bare engine cheaper. */
interface Lever {
  readonly name: string;
  readonly load?: Pick<RoundLoad, 'locally'>;
  readonly nodeOptions?: readonly string[];
}

const LEVERS: readonly Lever[] = [
  { name: 'local activity', load: { locally: true } },
  {
    name: 'no watchdog',
    nodeOptions: ['--import', new URL('../processes/without-watchdog.mjs', import.meta.url).href],
  },
];

/** What would lower the floor itself: the bare engine as it is beside itself with a lever pulled. */
export const levers = eachOnBothSides(LEVERS, measure);

async function measure(
  sides: Sides,
  { name, load: pulled, nodeOptions }: Lever,
  { quick, log }: ScenarioContext,
): Promise<Figure[]> {
  const round = (how: string, load?: Lever['load'], options?: Lever['nodeOptions']) => async (n: number) => {
    if (nodeOptions !== undefined) await sides.bare.restart(options);
    const one = async (prefix: string, count: number) => {
      const common = { merchants: ['levers'], path: 'levers', pace: { atATime: AT_A_TIME } };
      return await runRound(sides, sides.bare, { ...common, ...load, prefix, count });
    };
    // Just-in-time compilers have to see the code before.
    if (nodeOptions !== undefined) await one(`${how}-warm-${n}-`, quick ? 20 : 300);
    const result = await one(`${how}-${n}-`, quick ? 100 : 1_000);
    log(`${name}, ${how} ${n}: ${cpuInWords(result.cpu)}, ${result.perSecond.toFixed(0)} deliveries/s`);
    return result;
  };
  const [bare, product] = [round('floor'), round(name, pulled, nodeOptions)];
  await bare(0);
  await product(0);
  return cpuFigures('lever', await betweenFloors(quick ? 2 : 5, bare, product), undefined, name);
}
