import type { Client, Connection } from '@temporalio/client';
import type { Worker } from '@temporalio/worker';
import type { Health } from './health.ts';
import { checkSearchAttributes } from './search-attributes.ts';

/** An answer is good for so long, milliseconds: however often it is asked, Temporal is not. */
const GOOD_FOR_MS = 5_000;
const ASK_WITHIN_MS = 3_000;
/** Temporal that is away is not brought back by a restart; a poller that it misses although it is there may be. */
const DEAD_AFTER_MS = 300_000;
/** `TaskQueueType` on the wire. */
const QUEUE_TYPES = { workflows: 1, activities: 2 } as const;

/** The parts of a worker that are looked at. */
export type WatchedWorker = Pick<Worker, 'getState'> & {
  readonly options: { readonly taskQueue: string; readonly identity: string };
};

/** How Temporal sees the workers of this process. */
export class WorkerHealth implements Health {
  private readonly client: Client;
  private readonly workers: readonly WatchedWorker[];
  private asked = { at: Number.NEGATIVE_INFINITY, answer: Promise.resolve<string | undefined>(undefined) };
  /** Since when Temporal has answered, and has not seen one of our pollers. */
  private missingSince: number | undefined;

  constructor(client: Client, workers: readonly WatchedWorker[]) {
    this.client = client;
    this.workers = workers;
  }

  /** Not live: a worker has failed, or Temporal has been there for 5 minutes and was not polled. */
  readonly live = async (now = Date.now()): Promise<string | undefined> => {
    const broken = this.workers.find((worker) => worker.getState() === 'FAILED');
    if (broken !== undefined) return `the worker of ${broken.options.taskQueue} has failed`;
    // One that was told to end polls no more, and lives until its attempts have ended.
    if (this.workers.some((worker) => worker.getState() !== 'RUNNING')) return undefined;
    // Whoever asks only this keeps it up to date.
    void this.look(now).catch(() => undefined);
    if (this.missingSince === undefined || now - this.missingSince < DEAD_AFTER_MS) return undefined;
    return `Temporal answers and has not been polled since ${new Date(this.missingSince).toISOString()}`;
  };

  /** Ready: both workers run, Temporal sees that they poll for workflows and activities, and knows the search attributes. */
  readonly ready = async (now = Date.now()): Promise<string | undefined> => {
    const other = this.workers.find((worker) => worker.getState() !== 'RUNNING');
    if (other !== undefined) return `the worker of ${other.options.taskQueue} is ${other.getState()}`;
    return await this.look(now);
  };

  private async look(now: number): Promise<string | undefined> {
    if (now - this.asked.at >= GOOD_FOR_MS) this.asked = { at: now, answer: this.ask(now) };
    return await this.asked.answer;
  }

  private async ask(now: number): Promise<string | undefined> {
    try {
      await checkSearchAttributes(this.client, ASK_WITHIN_MS);
      const missing = (
        await Promise.all(this.workers.map(async (worker) => await this.missingPollers(worker)))
      ).flat();
      if (missing.length === 0) {
        this.missingSince = undefined;
        return undefined;
      }
      this.missingSince ??= now;
      return `Temporal is not polled for ${missing.join(', ')}`;
    } catch (error) {
      this.missingSince = undefined;
      return error instanceof Error ? `Temporal: ${error.message}` : String(error);
    }
  }

  private async missingPollers({ options }: WatchedWorker): Promise<string[]> {
    const { taskQueue, identity } = options;
    const connection = this.client.connection as Connection;
    const asked = await Promise.all(
      Object.entries(QUEUE_TYPES).map(async ([what, type]) => {
        const { namespace } = this.client.options;
        const request = { namespace, taskQueue: { name: taskQueue }, taskQueueType: type };
        const { pollers } = await connection.withDeadline(Date.now() + ASK_WITHIN_MS, () =>
          connection.workflowService.describeTaskQueue(request),
        );
        // Temporal forgets one 5 minutes after its last poll.
        const polls = pollers?.some((poller) => poller.identity === identity);
        return polls ? [] : [`${what} of ${taskQueue}`];
      }),
    );
    return asked.flat();
  }
}
