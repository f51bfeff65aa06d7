import type { Scenarios } from '../scenario.ts';
import { events } from './events.ts';
import { floor } from './floor.ts';
import { hosts } from './hosts.ts';
import { latency } from './latency.ts';
import { levers } from './levers.ts';
import { noisy } from './noisy.ts';
import { outage } from './outage.ts';
import { queue } from './queue.ts';
import { report } from './report.ts';
import { sleepers } from './sleepers.ts';

/** What deliveries cost and how they behave, beside the bare engine; by name, in the order in which they run. */
export const deliveryScenarios = {
  floor,
  latency,
  noisy,
  outage,
  sleepers,
  events,
  report,
  hosts,
  levers,
  queue,
} as const satisfies Scenarios;
