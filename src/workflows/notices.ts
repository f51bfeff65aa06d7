import { ActivityFailure, isCancellation, log, proxyActivities } from '@temporalio/workflow';
import type { Notice, NoticeActivities } from '../activities/types.ts';
import { MERCHANT_TASK_QUEUE } from '../contract.ts';
import type { GateView } from '../policy/gate.ts';
import type { Transition } from './merchant-state.ts';

/** A breaker's changes that operators are still to be told of. They are told of none until a worker says that they want to be. */
export class BreakerNotices {
  private readonly merchantId: string;
  private waiting: readonly Notice[] | undefined;
  private isClosed: boolean;

  /** @param waiting - what the run before has not told; `undefined` if operators want none. */
  constructor(merchantId: string, isClosed: boolean, waiting: readonly Notice[] | undefined) {
    this.merchantId = merchantId;
    this.isClosed = isClosed;
    this.waiting = waiting;
  }

  /** For the next run. */
  get left(): readonly Notice[] | undefined {
    return this.waiting;
  }

  want(): void {
    this.waiting ??= [];
  }

  /** Takes in a transition; `view` is what the gate shows after it. */
  add(transition: Transition, view: GateView): void {
    const change = changeOf(transition.event, this.isClosed);
    if (change === undefined) return;
    this.isClosed = change === 'closed';
    if (this.waiting === undefined) return;
    const { merchantId } = this;
    const { at, event, ...facts } = transition;
    const notice = { at: rfc3339(at), merchantId, ...facts };
    this.waiting = [
      ...this.waiting,
      change === 'opened'
        ? {
            id: `breaker-opened.${merchantId}.${at}`,
            type: 'hookladder.breaker_opened',
            ...notice,
            ...(view.circuit.state === 'open' ? { until: rfc3339(view.circuit.until) } : {}),
          }
        : {
            id: `breaker-closed.${merchantId}.${at}`,
            type: 'hookladder.breaker_closed',
            ...notice,
            because: event,
          },
    ];
  }

  hasSome(): boolean {
    return this.waiting !== undefined && this.waiting.length > 0;
  }

  /** One after the other; one that is cut off by the end of a run is told again by the next, under the same id. */
  async tellOldest(): Promise<void> {
    const [oldest] = this.waiting ?? [];
    if (oldest === undefined) return;
    await tellOperators(oldest);
    this.waiting = this.waiting?.slice(1);
  }
}

function changeOf(event: Transition['event'], isClosed: boolean): 'opened' | 'closed' | undefined {
  if (event === 'opened') return 'opened';
  return event === 'trial-passed' || (event === 'reset' && !isClosed) ? 'closed' : undefined;
}

/** Makes a notice durable. One that cannot be told for a long time is given up: what it tells of must go on. */
export async function tellOperators(notice: Notice): Promise<void> {
  try {
    await notify(notice);
  } catch (error) {
    if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error;
    const { merchantId, id } = notice;
    log.error('operators could not be told', { merchantId, notice: id, error: error.cause?.message });
  }
}

const { notify } = proxyActivities<NoticeActivities>({
  taskQueue: MERCHANT_TASK_QUEUE,
  startToCloseTimeout: '15 seconds',
  scheduleToCloseTimeout: '10 minutes',
  retry: { initialInterval: '1 second', maximumInterval: '30 seconds' },
  summary: 'tells operators',
});

function rfc3339(unixMs: number): string {
  return new Date(unixMs).toISOString();
}
