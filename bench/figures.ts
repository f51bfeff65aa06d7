import Table from 'cli-table3';

/** What a figure must be; one without a goal is only reported. */
export type Goal =
  | { readonly atMost: number }
  | { readonly atLeast: number }
  | { readonly exactly: number }
  | { readonly between: readonly [least: number, most: number] };

/** One measured number. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  /** The least and the most of the rounds, where the value is their median. */
  readonly spread?: Spread;
  readonly goal?: Goal;
}

export type Spread = readonly [least: number, most: number];

/** A figure of a scenario, with what became of its goal. */
export interface JudgedFigure extends Figure {
  readonly scenario: string;
  /** Absent without a goal. */
  readonly holds?: boolean;
}

/** Compares a figure with its goal. */
export function judged(scenario: string, figure: Figure): JudgedFigure {
  const { goal } = figure;
  return { scenario, ...figure, ...(goal === undefined ? {} : { holds: holds(figure.value, goal) }) };
}

/** The figures for people. */
export function tableOf(figures: readonly JudgedFigure[]): string {
  const table = new Table({
    head: ['scenario', 'figure', 'value', 'rounds', 'goal', 'holds'],
    style: { head: [], border: [] },
  });
  for (const { scenario, what, value, unit, spread, goal, holds: isHeld } of figures) {
    const rounds = spread === undefined ? '' : `${rounded(spread[0])} to ${rounded(spread[1])}`;
    const shown = `${rounded(value)} ${unit}`.trim();
    table.push([scenario, what, shown, rounds, goalInWords(goal), yesOrNo(isHeld)]);
  }
  return table.toString();
}

/** A figure of several rounds: their median, and how far they differ. */
export function medianFigure(what: string, unit: string, rounds: readonly number[], goal?: Goal): Figure {
  return {
    what,
    value: median(rounds),
    unit,
    spread: [Math.min(...rounds), Math.max(...rounds)],
    ...(goal === undefined ? {} : { goal }),
  };
}

/** The middle value, or the mean of the two in the middle; `NaN` without values. */
export function median(values: readonly number[]): number {
  return (
    (percentile(values, 0.5) -
      percentile(
        values.map((value) => -value),
        0.5,
      )) /
    2
  );
}

/** The value that a share of all values do not exceed; `NaN` without values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** The largest, without the limit on arguments of `Math.max`; 0 without values. */
export function largest(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), 0);
}

function holds(value: number, goal: Goal): boolean {
  if ('atMost' in goal) return value <= goal.atMost;
  if ('atLeast' in goal) return value >= goal.atLeast;
  if ('exactly' in goal) return value === goal.exactly;
  const [least, most] = goal.between;
  return value >= least && value <= most;
}

function goalInWords(goal: Goal | undefined): string {
  if (goal === undefined) return '';
  if ('atMost' in goal) return `≤ ${rounded(goal.atMost)}`;
  if ('atLeast' in goal) return `≥ ${goal.atLeast}`;
  if ('exactly' in goal) return `= ${goal.exactly}`;
  return `${rounded(goal.between[0])} to ${rounded(goal.between[1])}`;
}

function yesOrNo(isHeld: boolean | undefined): string {
  if (isHeld === undefined) return '';
  return isHeld ? 'yes' : 'NO';
}

function rounded(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(value < 100 ? 2 : 0);
}
