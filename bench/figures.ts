import Table from 'cli-table3';

/** What a figure must be; one without a goal is only reported. */
export type Goal =
  | { readonly atMost: number }
  | { readonly exactly: number }
  | { readonly between: readonly [least: number, most: number] };

/** One measured number. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  readonly goal?: Goal;
}

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
    head: ['scenario', 'figure', 'value', 'goal', 'holds'],
    style: { head: [], border: [] },
  });
  for (const { scenario, what, value, unit, goal, holds: isHeld } of figures) {
    table.push([scenario, what, `${rounded(value)} ${unit}`.trim(), goalInWords(goal), yesOrNo(isHeld)]);
  }
  return table.toString();
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
  if ('exactly' in goal) return value === goal.exactly;
  const [least, most] = goal.between;
  return value >= least && value <= most;
}

function goalInWords(goal: Goal | undefined): string {
  if (goal === undefined) return '';
  if ('atMost' in goal) return `≤ ${goal.atMost}`;
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
