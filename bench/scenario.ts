import type { Figure } from './figures.ts';

/** What a scenario is given. */
export interface ScenarioContext {
  /** A size that only shows that the program works. */
  readonly quick: boolean;
  /** The full size of the figure's definition; without it a size that ends in a few minutes. */
  readonly full: boolean;
  /** Progress for people. */
  readonly log: (line: string) => void;
}

export type Scenario = (context: ScenarioContext) => Promise<Figure[]>;

/** By name; one of several parts loses only the part that could not be measured. */
export type Scenarios = Readonly<Record<string, Scenario | readonly Scenario[]>>;
