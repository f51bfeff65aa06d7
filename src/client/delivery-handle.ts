import {
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  type WorkflowExecutionDescription,
  type WorkflowHandle,
} from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, TerminatedFailure, TimeoutFailure } from '@temporalio/common';
import { deliveryWorkflowId, GATE_MEMO, merchantWorkflowId } from '../contract.ts';
import { restartDelivery } from '../deliveries.ts';
import { DeliveryNotFound, InvalidWebhook, NoWorker } from '../errors.ts';
import { readFailure } from '../payloads.ts';
import { askGate, type Cause, type GateView, type Pausing } from '../policy/gate.ts';
import { heldState, type DeliveryStatus } from '../policy/status.ts';
import { cancelCauseSignal, statusQuery, tryNowUpdate, type TryNowOutcome } from '../workflows/messages.ts';
import { NO_LIMIT, type TemporalCalls } from './temporal-calls.ts';

/** A try now answers when its attempt has a verdict: the exchange's limit and what surrounds it. */
const TRY_NOW_LIMIT_MS = 30_000;
/** `ApplicationErrorCategory.BENIGN` on the wire: an expected bounce, not a fault. */
const BENIGN = 1;

/** More than follow a workflow task that has failed. */
const LATEST_EVENTS = 20;

/** R81: what came of a redelivery. */
export type RedeliverOutcome =
  /** It had ended and begins anew: same id, same body, fresh budgets and record age. */
  | { readonly outcome: 'started'; readonly runId: string }
  /** It was still open and was told to try now: one chain only. */
  | { readonly outcome: 'open'; readonly tryNow: TryNowOutcome }
  /** Nothing was done: it was delivered or cancelled. */
  | { readonly outcome: 'needs-force'; readonly existing: 'delivered' | 'cancelled' };

/** Others may end it between a look and a try now; that often in a row is no chance any more. */
const REDELIVER_LOOKS = 5;

/** One delivery, open or ended. Made by {@link Hookladder.deliver} and {@link Hookladder.delivery}. */
export class DeliveryHandle {
  readonly merchantId: string;
  readonly webhookId: string;
  /** The Temporal workflow id, to find it in the UI. */
  readonly workflowId: string;
  private readonly calls: TemporalCalls;

  constructor(calls: TemporalCalls, merchantId: string, webhookId: string) {
    this.calls = calls;
    this.merchantId = merchantId;
    this.webhookId = webhookId;
    this.workflowId = deliveryWorkflowId(merchantId, webhookId);
  }

  /**
   * R90: where the webhook is now. An open or cancelled delivery is asked, for which a worker must run; one
   * that was delivered or FAILED is read from its history.
   * @throws {@link DeliveryNotFound}, {@link NoWorker}, {@link TemporalUnavailable}
   */
  async status(): Promise<DeliveryStatus> {
    const description = await this.found(() => this.handle().describe());
    switch (description.status.name) {
      case 'COMPLETED':
      case 'FAILED':
        return await this.result();
      case 'TERMINATED':
      case 'TIMED_OUT':
        return await this.endedByOthers(description.status.name);
      default:
        return withOwnFault(await this.asHeldNow(await this.query()), await this.ownFault(description));
    }
  }

  /**
   * Waits for the end, however long it takes, and returns the final status: `delivered`, `failed` or `cancelled`.
   * @throws {@link InvalidWebhook} if somebody else started it with an input that breaks R71;
   *   {@link DeliveryNotFound}, {@link TemporalUnavailable}
   */
  async result(): Promise<DeliveryStatus> {
    try {
      return await this.found(() => this.handle().result(), NO_LIMIT);
    } catch (error) {
      if (!(error instanceof WorkflowFailedError)) throw error;
      const { cause } = error;
      if (cause instanceof ApplicationFailure && cause.type === 'DeliveryFailed') {
        return cause.details?.[0] as DeliveryStatus;
      }
      if (cause instanceof ApplicationFailure && cause.type === 'InvalidDeliveryInput') {
        throw new InvalidWebhook([{ field: 'input', message: cause.message }]);
      }
      if (cause instanceof CancelledFailure) return await this.query();
      if (cause instanceof TerminatedFailure) return await this.endedByOthers('TERMINATED');
      if (cause instanceof TimeoutFailure) return await this.endedByOthers('TIMED_OUT');
      throw error;
    }
  }

  /**
   * R83: ends a ladder pause now. Never passes the gate, and a failed try spends no budget. Answers when the
   * attempt has its verdict.
   * @returns `ended` if the delivery has ended already.
   * @throws {@link DeliveryNotFound}, {@link NoWorker}, {@link TemporalUnavailable}
   */
  async tryNow(cause: Cause = {}): Promise<TryNowOutcome | { readonly outcome: 'ended' }> {
    try {
      return await this.calls.askWorker(
        () => this.handle().executeUpdate(tryNowUpdate, { args: [cause] }),
        TRY_NOW_LIMIT_MS,
      );
    } catch (error) {
      if (error instanceof WorkflowUpdateFailedError && error.cause instanceof CancelledFailure) {
        return { outcome: 'cancelled' };
      }
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      await this.found(() => this.handle().describe());
      return { outcome: 'ended' };
    }
  }

  /**
   * R81: delivers it again. One that FAILED begins anew with the same id and body, fresh budgets and record age; one
   * that is open is told to try now; one that was delivered or cancelled is left alone unless `force` is set.
   * Pressed twice it makes one chain.
   * @throws {@link DeliveryNotFound}; {@link InvalidWebhook} if it failed because its input breaks R71;
   *   {@link NoWorker} if it is open and no worker runs; {@link TemporalUnavailable}
   */
  async redeliver({
    force = false,
    ...cause
  }: Cause & { readonly force?: boolean } = {}): Promise<RedeliverOutcome> {
    const { workflowId } = this;
    for (let look = 1; ; look += 1) {
      const restart = await this.found(() =>
        restartDelivery(this.calls.client, { workflowId, force, cause }),
      );
      if (restart.outcome === 'started' || restart.outcome === 'needs-force') return restart;
      const tryNow = await this.tryNow(cause);
      if (tryNow.outcome !== 'ended') return { outcome: 'open', tryNow };
      if (look === REDELIVER_LOOKS)
        throw new Error('the delivery ends again and again while it is looked at');
    }
  }

  /**
   * R82: asks the delivery to end. A POST in flight is let finish: 2xx is still delivered. Does nothing if it has
   * ended; {@link result} tells what came of it.
   * @throws {@link DeliveryNotFound}, {@link TemporalUnavailable}
   */
  async cancel(cause: Cause = {}): Promise<void> {
    await this.found(async () => {
      if (cause.by !== undefined || cause.why !== undefined) {
        await this.handle().signal(cancelCauseSignal, cause);
      }
      await this.handle().cancel();
    }).catch(async (error: unknown) => {
      if (!(error instanceof DeliveryNotFound)) throw error;
      await this.found(() => this.handle().describe());
    });
  }

  private handle(): WorkflowHandle<(input: unknown) => Promise<DeliveryStatus>> {
    return this.calls.client.workflow.getHandle(this.workflowId);
  }

  private async found<T>(operation: () => Promise<T>, limitMs?: number): Promise<T> {
    try {
      return await this.calls.call(operation, limitMs);
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) throw new DeliveryNotFound(this.merchantId, this.webhookId);
      throw error;
    }
  }

  private async query(): Promise<DeliveryStatus> {
    try {
      return await this.calls.askWorker(() => this.handle().query(statusQuery));
    } catch (error) {
      throw error instanceof NoWorker ? new NoWorker(error.cause, await this.whyStuck()) : error;
    }
  }

  /** R6: what the latest workflow task failed of, if it did: a key that is missing, a bad deploy. */
  private async whyStuck(): Promise<string | undefined> {
    const { client } = this.calls;
    const { history } = await this.calls.call(() =>
      client.workflowService.getWorkflowExecutionHistoryReverse({
        namespace: client.options.namespace,
        execution: { workflowId: this.workflowId },
        maximumPageSize: LATEST_EVENTS,
      }),
    );
    const latest = history?.events?.find(
      (event) => event.workflowTaskFailedEventAttributes || event.workflowTaskCompletedEventAttributes,
    );
    const failure = latest?.workflowTaskFailedEventAttributes?.failure;
    return failure ? (await readFailure(client, failure)).message : undefined;
  }

  /** Terminated by an operator, or by an execution timeout that whoever started it had set: the rules never do either. */
  private async endedByOthers(how: 'TERMINATED' | 'TIMED_OUT'): Promise<DeliveryStatus> {
    const status = await this.query();
    return how === 'TERMINATED'
      ? { ...status, state: 'cancelled', reason: 'terminated' }
      : { ...status, state: 'failed', reason: 'timed-out' };
  }

  /** R53: a held delivery knows why it was held when it asked last; its merchant knows what holds it now. */
  private async asHeldNow(status: DeliveryStatus): Promise<DeliveryStatus> {
    if (!status.state.startsWith('held-')) return status;
    const entity = this.calls.client.workflow.getHandle(merchantWorkflowId(this.merchantId));
    const description = await this.calls.ifFound(() => entity.describe());
    const view = description?.memo?.[GATE_MEMO] as GateView | undefined;
    const answer = askGate(view, { held: true, released: false });
    // Open: it is about to be woken.
    if (answer.pass) return status;
    const { reason, until } = answer;
    const { heldUntil: _, ...rest } = status;
    return {
      ...rest,
      state: heldState[reason],
      reason,
      ...(reason === 'paused' && view?.paused !== undefined ? { paused: pausing(view.paused) } : {}),
      ...(until === undefined ? {} : { heldUntil: new Date(until).toISOString() }),
    };
  }

  /** R6: an activity that is being retried after a failure that is not benign. */
  private async ownFault({ raw }: WorkflowExecutionDescription) {
    const pending = raw.pendingActivities?.find(
      ({ attempt, lastFailure }) =>
        (attempt ?? 0) > 1 && lastFailure && lastFailure.applicationFailureInfo?.category !== BENIGN,
    );
    if (pending === undefined) return undefined;
    const { message, details } = await readFailure(this.calls.client, pending.lastFailure ?? {});
    const [detail] = details;
    const since =
      typeof detail === 'object' && detail !== null && 'since' in detail ? detail.since : undefined;
    return { message, ...(typeof since === 'string' ? { since } : {}) };
  }
}

function pausing({ since, ...cause }: Pausing): NonNullable<DeliveryStatus['paused']> {
  return { since: new Date(since).toISOString(), ...cause };
}

function withOwnFault(
  status: DeliveryStatus,
  fault: { readonly message: string; readonly since?: string } | undefined,
): DeliveryStatus {
  if (fault === undefined) return status;
  return {
    ...status,
    state: 'own-fault',
    reason: fault.message,
    ...(fault.since === undefined ? {} : { faultSince: fault.since }),
  };
}
