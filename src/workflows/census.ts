import { continueAsNew, proxyActivities } from '@temporalio/workflow';
import type { CensusActivities } from '../activities/types.ts';

/** About a day. */
const ACTIVITIES_PER_RUN = 24;

/**
 * Sees to it that exactly one of the workers counts open deliveries and breakers for the metrics: when it ends or dies,
 * another one goes on. Nothing else depends on it; terminated, it comes back when a worker starts.
 */
export async function census(): Promise<void> {
  for (let times = 0; times < ACTIVITIES_PER_RUN; times += 1) await takeCensus();
  await continueAsNew<typeof census>();
}

const { takeCensus } = proxyActivities<CensusActivities>({
  startToCloseTimeout: '2 hours',
  heartbeatTimeout: '30 seconds',
  retry: { initialInterval: '1 second', maximumInterval: '30 seconds' },
  summary: 'counts open deliveries and breakers',
});
