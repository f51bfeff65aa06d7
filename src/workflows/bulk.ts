import {
  ActivityCancellationType,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  continueAsNew,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { BulkActivities } from '../activities/types.ts';
import {
  begun,
  checkBulkInput,
  further,
  progressInWords,
  type BulkInput,
  type BulkProgress,
} from '../bulk.ts';
import { bulkProgressQuery } from './messages.ts';

/** About a second at the usual pace, so that progress is seen. */
const PAGE_SIZE = 25;
const DRY_RUN_PAGE_SIZE = 200;
/** A run ends after this many pages, so that its history stays short however many targets there are. */
const PAGES_PER_RUN = 100;
const HEARTBEAT_TIMEOUT_MS = 10_000;

/**
 * A bulk command: finds its targets page by page, does each one once, paced, and completes with the counts. It goes on
 * whatever becomes of the terminal that gave it and of the workers; cancelled, it stops between two targets.
 */
export async function bulk(...inputs: unknown[]): Promise<BulkProgress> {
  const input = accept(inputs);
  const { firstExecutionRunId, startTime } = workflowInfo();
  let progress = input.progress ?? begun(input, startTime.getTime());
  setHandler(bulkProgressQuery, () => progress);
  const publish = (next: BulkProgress): void => {
    progress = next;
    setCurrentDetails(progressInWords(progress));
  };
  const asOf = Date.parse(progress.startedAt);
  if (input.progress === undefined) {
    publish({ ...progress, expected: await countTargets({ ...input, asOf }) });
  }
  let { from } = input;
  for (let pages = 0; pages < (input.pagesPerRun ?? PAGES_PER_RUN); pages += 1) {
    const page = await findTargets({
      ...input,
      asOf,
      pageSize: input.pageSize ?? (input.dryRun ? DRY_RUN_PAGE_SIZE : PAGE_SIZE),
      ...at(from),
    });
    if (page.targets.length > 0) {
      const { reached, counts } = await treat({
        ...input,
        asOf,
        bulk: firstExecutionRunId,
        targets: page.targets,
      });
      publish(further(progress, reached, counts));
      if (CancellationScope.current().consideredCancelled)
        throw new CancelledFailure('stopped by an operator');
    }
    if (page.next === undefined) {
      publish({ ...progress, endedAt: new Date(Date.now()).toISOString() });
      return progress;
    }
    from = page.next;
  }
  return await continueAsNew<typeof bulk>({ ...input, progress, ...at(from) });
}

function at(from: string | undefined): { readonly from?: string } {
  return from === undefined ? {} : { from };
}

/** Anyone may have started it: an exception would block the workflow for good. */
function accept([given]: readonly unknown[]): BulkInput {
  const checked = checkBulkInput(given);
  if (checked.ok) return checked.input;
  const problems = checked.problems.map(({ field, message }) => `${field} ${message}`);
  throw ApplicationFailure.create({
    type: 'InvalidBulkInput',
    message: problems.join('; '),
    details: [problems],
    nonRetryable: true,
  });
}

const retry = { initialInterval: '1 second', maximumInterval: '10 seconds' } as const;

const { countTargets, findTargets } = proxyActivities<BulkActivities>({
  startToCloseTimeout: '15 seconds',
  retry,
});
const { treat } = proxyActivities<BulkActivities>({
  startToCloseTimeout: '2 hours',
  heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
  // What was done before it stopped is told.
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry,
});
