import { inTurn, short } from './scenarios/common.ts';
import { deliveries, outcomeUnknown } from './scenarios/deliveries.ts';
import { merchants } from './scenarios/merchants.ts';
import { withNoticesAndTraces } from './scenarios/notices.ts';
import { others } from './scenarios/others.ts';
import type { Stand } from './stand.ts';

/** Puts every workflow into each of its states and records it there. */
export async function record(stand: Stand): Promise<void> {
  await outcomeUnknown(stand);
  const workers = await stand.startWorkers({ policy: short });
  await inTurn(stand, [...deliveries, ...merchants, ...others]);
  await workers.shutdown();
  await withNoticesAndTraces(stand);
}
