import type { Scenario } from '../scenario.ts';
import { burst } from './burst.ts';
import { reports } from './reports.ts';

/** The breaker's figures, by name, in the order in which they run. */
export const breakerScenarios = { reports, burst } as const satisfies Record<string, Scenario>;
