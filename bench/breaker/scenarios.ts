import type { Scenarios } from '../scenario.ts';
import { burst } from './burst.ts';
import { hanging } from './hanging.ts';
import { held } from './held.ts';
import { outage } from './outage.ts';
import { reports } from './reports.ts';
import { signals } from './signals.ts';

/** The breaker's figures, by name, in the order in which they run. */
export const breakerScenarios = {
  reports,
  burst,
  outage,
  hanging,
  signals,
  held,
} as const satisfies Scenarios;
