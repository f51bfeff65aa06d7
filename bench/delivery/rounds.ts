import { medianFigure, type Figure, type Goal } from '../figures.ts';
import type { Cpu } from './sides.ts';

/** Rounds of the two sides. */
export interface Rounds<T> {
  readonly product: readonly T[];
  readonly bare: readonly T[];
}

/** Rounds differ so much that no figure can be given; run again when the machine has nothing else to do. */
export class Unsteady extends Error {
  override readonly name = 'Unsteady';
  readonly code = 'BENCH_UNSTEADY';
}

/** Above this the rounds say more about the machine than about the program. */
const MOST_DIFFERENCE = 0.3;

/** A B A B …: whatever else the machine does meets both alike. */
export async function inTurn<T>(
  count: number,
  bare: (round: number) => Promise<T>,
  product: (round: number) => Promise<T>,
): Promise<Rounds<T>> {
  const rounds = { bare: [] as T[], product: [] as T[] };
  for (let round = 1; round <= count; round++) {
    rounds.bare.push(await bare(round));
    rounds.product.push(await product(round));
  }
  return rounds;
}

/**
 * A B A … B A: every round of the other side has one of the floor before and one after it, so that what grows from
 * round to round, as the memory of a server does, meets both alike.
 */
export async function betweenFloors<T>(
  count: number,
  bare: (round: number) => Promise<T>,
  product: (round: number) => Promise<T>,
): Promise<Rounds<T>> {
  const rounds = await inTurn(count, bare, product);
  return { ...rounds, bare: [...rounds.bare, await bare(count + 1)] };
}

/** What the floor is for a round of the other side: the mean of its rounds before and after. */
export function floorAt(round: number, bare: readonly number[]): number {
  const [before = Number.NaN, after = Number.NaN] = bare.slice(round, round + 2);
  return (before + after) / 2;
}

/** @throws {@link Unsteady} */
export function mustBeSteady(what: string, rounds: readonly number[]): void {
  const [least, most] = [Math.min(...rounds), Math.max(...rounds)];
  if (most <= least * (1 + MOST_DIFFERENCE)) return;
  const shown = rounds.map((value) => value.toFixed(1)).join(', ');
  throw new Unsteady(
    `${what}: CPU ms per delivery differ by more than ${MOST_DIFFERENCE * 100} % between rounds (${shown}): ` +
      'the machine is busy with something else; not reported',
  );
}

/**
 * CPU per delivery of both sides and their ratio, round by round.
 * @param other - what is compared with the floor.
 * @throws {@link Unsteady}
 */
export function cpuFigures(
  what: string,
  { bare, product }: Rounds<Cpu>,
  goal?: Goal,
  other = 'product',
): Figure[] {
  const sums = { bare: bare.map(({ sum }) => sum), product: product.map(({ sum }) => sum) };
  mustBeSteady(`${what}, bare`, sums.bare);
  mustBeSteady(`${what}, ${other}`, sums.product);
  const ratios = sums.product.map((sum, round) => floorAt(round, sums.bare) / sum);
  const ms = 'ms';
  const figures = [
    medianFigure(`${what}: floor ÷ ${other}, CPU per delivery`, '×', ratios, goal),
    medianFigure(`${what}: floor, CPU per delivery`, ms, sums.bare),
    medianFigure(`${what}: ${other}, CPU per delivery`, ms, sums.product),
    medianFigure(
      `${what}: floor, of it the worker`,
      ms,
      bare.map(({ worker }) => worker),
    ),
    medianFigure(
      `${what}: ${other}, of it the worker`,
      ms,
      product.map(({ worker }) => worker),
    ),
  ];
  if (ofServer(bare).length === 0) return figures;
  return [
    ...figures,
    medianFigure(`${what}: floor, of it the server`, ms, ofServer(bare)),
    medianFigure(`${what}: ${other}, of it the server`, ms, ofServer(product)),
  ];
}

function ofServer(cpus: readonly Cpu[]): number[] {
  return cpus.flatMap(({ server }) => server ?? []);
}
