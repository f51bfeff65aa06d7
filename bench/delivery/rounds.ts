import { medianFigure, type Figure, type Goal } from '../figures.ts';
import type { Round } from './round.ts';
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

/** A round of what is compared with the floor. */
export interface Compared<T> {
  /** The floor's rounds before and after it. */
  readonly floors: readonly [T, T];
  readonly other: T;
}

/**
 * A B A … B A: every round of the other side has one of the floor before and one after it, so that what grows from
 * round to round, as the memory of a server does, meets both alike.
 */
export async function betweenFloors<T>(
  count: number,
  bare: (round: number) => Promise<T>,
  other: (round: number) => Promise<T>,
): Promise<Compared<T>[]> {
  const rounds: Compared<T>[] = [];
  let before = await bare(1);
  for (let round = 1; round <= count; round++) {
    const one = await other(round);
    const after = await bare(round + 1);
    rounds.push({ floors: [before, after], other: one });
    before = after;
  }
  return rounds;
}

/** The rounds of each side once. */
export function sidesOf<T>(rounds: readonly Compared<T>[]): { bare: T[]; other: T[] } {
  return {
    bare: [...new Set(rounds.flatMap(({ floors }) => floors))],
    other: rounds.map(({ other }) => other),
  };
}

/** What the floor is for a round of the other side. */
export function floorOf<T>({ floors: [before, after] }: Compared<T>, valueOf: (round: T) => number): number {
  return (valueOf(before) + valueOf(after)) / 2;
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
 * @param name - of what is compared with the floor.
 * @throws {@link Unsteady}
 */
export function cpuFigures(
  what: string,
  rounds: readonly Compared<Pick<Round, 'cpu'>>[],
  goal?: Goal,
  name = 'product',
): Figure[] {
  const sides = sidesOf(rounds);
  const [bare, other] = [sides.bare.map(cpuOf), sides.other.map(cpuOf)];
  mustBeSteady(`${what}, bare`, bare.map(sumOf));
  mustBeSteady(`${what}, ${name}`, other.map(sumOf));
  const ratios = rounds.map((round) => floorOf(round, ({ cpu }) => cpu.sum) / round.other.cpu.sum);
  const figure = (of: string, values: readonly number[]) => medianFigure(`${what}: ${of}`, 'ms', values);
  const figures = [
    medianFigure(`${what}: floor ÷ ${name}, CPU per delivery`, '×', ratios, goal),
    figure('floor, CPU per delivery', bare.map(sumOf)),
    figure(`${name}, CPU per delivery`, other.map(sumOf)),
    figure(
      'floor, of it the worker',
      bare.map(({ worker }) => worker),
    ),
    figure(
      `${name}, of it the worker`,
      other.map(({ worker }) => worker),
    ),
  ];
  if (ofServer(bare).length === 0) return figures;
  return [
    ...figures,
    figure('floor, of it the server', ofServer(bare)),
    figure(`${name}, of it the server`, ofServer(other)),
  ];
}

function cpuOf({ cpu }: Pick<Round, 'cpu'>): Cpu {
  return cpu;
}

function sumOf({ sum }: Cpu): number {
  return sum;
}

function ofServer(cpus: readonly Cpu[]): number[] {
  return cpus.flatMap(({ server }) => server ?? []);
}
