import type { Scenario } from '../scenario.ts';
import { floor } from './floor.ts';

/** What deliveries cost and how they behave, beside the bare engine; by name, in the order in which they run. */
export const deliveryScenarios = { floor } as const satisfies Record<string, Scenario>;
