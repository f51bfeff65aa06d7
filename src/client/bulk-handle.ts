import { createHash } from 'node:crypto';
import {
  QueryNotRegisteredError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  WorkflowNotFoundError,
} from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import {
  checkBulkInput,
  type BulkInput,
  type BulkOrder,
  type BulkProgress,
  type BulkSettings,
} from '../bulk.ts';
import { BULK_WORKFLOW, MERCHANT_TASK_QUEUE } from '../contract.ts';
import { BulkNotFound, InvalidFilter, NoWorker } from '../errors.ts';
import { visibilityPage } from '../visibility.ts';
import { bulkProgressQuery } from '../workflows/messages.ts';
import { NO_LIMIT, type TemporalCalls } from './temporal-calls.ts';

/** A bulk command under way or ended. It goes on whatever becomes of this process. */
export class BulkHandle {
  /** The Temporal workflow id, to find it in the UI. */
  readonly id: string;
  /** False if the same command was under way already: then this is that one, at its own pace. */
  readonly started: boolean;
  private readonly calls: TemporalCalls;

  constructor(calls: TemporalCalls, id: string, started: boolean) {
    this.calls = calls;
    this.id = id;
    this.started = started;
  }

  /**
   * How far it is.
   * @throws {@link InvalidFilter} if somebody else started it with a wrong one; {@link BulkNotFound}, {@link NoWorker},
   *   {@link TemporalUnavailable}
   */
  async progress(): Promise<BulkProgress> {
    try {
      return await this.found(() => this.calls.askWorker(() => this.handle().query(bulkProgressQuery)));
    } catch (error) {
      // One that failed before it began, or no bulk command at all.
      if (error instanceof QueryNotRegisteredError) return await this.result();
      throw error;
    }
  }

  /**
   * Waits for the end, however long it takes.
   * @returns without `endedAt` if it was stopped.
   * @throws {@link InvalidFilter} if somebody else started it with a wrong one; {@link BulkNotFound},
   *   {@link TemporalUnavailable}
   */
  async result(): Promise<BulkProgress> {
    await this.mustBeBulk();
    try {
      return await this.found(() => this.calls.call(() => this.handle().result(), NO_LIMIT));
    } catch (error) {
      if (!(error instanceof WorkflowFailedError)) throw error;
      if (error.cause instanceof CancelledFailure) return await this.progress();
      if (error.cause instanceof ApplicationFailure && error.cause.type === 'InvalidBulkInput') {
        throw new InvalidFilter([{ field: 'input', message: error.cause.message }]);
      }
      throw error;
    }
  }

  /**
   * Stops it between two targets; what was done stays done. The same command goes on with the rest.
   * @throws {@link BulkNotFound}, {@link TemporalUnavailable}
   */
  async stop(): Promise<void> {
    await this.mustBeBulk();
    await this.found(() => this.calls.call(() => this.handle().cancel()));
  }

  /** The id may be that of a delivery. */
  private async mustBeBulk(): Promise<void> {
    const { type } = await this.found(() => this.calls.call(() => this.handle().describe()));
    if (type !== BULK_WORKFLOW) throw new BulkNotFound(this.id);
  }

  private handle() {
    return this.calls.client.workflow.getHandle<(input: BulkInput) => Promise<BulkProgress>>(this.id);
  }

  private async found<T>(operation: () => Promise<T>): Promise<T> {
    try {
      return await operation();
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) throw new BulkNotFound(this.id);
      throw error;
    }
  }
}

/** A bulk command in a list. */
export interface ListedBulk {
  readonly id: string;
  /** Absent if no worker can be asked, and for one that somebody else started with a wrong filter. */
  readonly progress?: BulkProgress;
}

/** Each id once, as it was given last. */
export async function* listBulk(
  calls: TemporalCalls,
  limit: number,
): AsyncGenerator<ListedBulk, void, undefined> {
  const seen = new Set<string>();
  let from: string | undefined;
  do {
    const page = await calls.call(() =>
      visibilityPage(calls.client, `WorkflowType = "${BULK_WORKFLOW}"`, limit, from),
    );
    for (const { workflowId } of page.found) {
      if (seen.has(workflowId)) continue;
      if (seen.size === limit) return;
      seen.add(workflowId);
      const progress = await new BulkHandle(calls, workflowId, false).progress().catch((error: unknown) => {
        if (![NoWorker, BulkNotFound, InvalidFilter].some((known) => error instanceof known)) throw error;
      });
      yield { id: workflowId, ...(progress === undefined ? {} : { progress }) };
    }
    from = page.next;
  } while (from !== undefined);
}

/** Starts a bulk command, or finds the same one under way. */
export async function startBulk(calls: TemporalCalls, order: BulkOrder & BulkSettings): Promise<BulkHandle> {
  const checked = checkBulkInput(order);
  if (!checked.ok) throw new InvalidFilter(checked.problems);
  const workflowId = bulkId(order);
  try {
    await calls.call(() =>
      calls.client.workflow.start(BULK_WORKFLOW, {
        workflowId,
        taskQueue: MERCHANT_TASK_QUEUE,
        args: [checked.input],
        workflowIdConflictPolicy: 'FAIL',
        staticSummary: summaryOf(order),
      }),
    );
    return new BulkHandle(calls, workflowId, true);
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    return new BulkHandle(calls, workflowId, false);
  }
}

/** From the command and its filter, so that the same command twice is one workflow. */
function bulkId({ command, filter, dryRun = false }: BulkOrder & BulkSettings): string {
  const asked = Object.entries(filter).toSorted(([one], [other]) => (one < other ? -1 : 1));
  const digest = createHash('sha256').update(JSON.stringify(asked)).digest('hex').slice(0, 16);
  return `bulk:${command}:${digest}${dryRun ? ':dry-run' : ''}`;
}

function summaryOf({ command, filter, dryRun, by, why }: BulkOrder & BulkSettings): string {
  const asked = Object.entries(filter).map(([name, value]) => `${name} ${value}`);
  const words = [`${command}${dryRun ? ' (dry run)' : ''}: ${asked.length === 0 ? 'all' : asked.join(', ')}`];
  if (by !== undefined) words.push(`by ${by}`);
  if (why !== undefined) words.push(why);
  return words.join('; ').slice(0, 200);
}
