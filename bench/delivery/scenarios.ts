import type { Scenario } from '../scenario.ts';
import { floor } from './floor.ts';
import { hosts } from './hosts.ts';

/** What deliveries cost and how they behave, beside the bare engine; by name, in the order in which they run. */
export const deliveryScenarios = { floor, hosts } as const satisfies Record<string, Scenario>;
