import {
  ActivityCancellationType,
  ActivityFailure,
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  condition,
  isCancellation,
  log,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  TimeoutFailure,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { defineSearchAttributeKey, type RetryPolicy, type SearchAttributePair } from '@temporalio/common';
import type {
  AttemptResult,
  DeliveryActivities,
  GateRequest,
  Held,
  NoticeSettings,
} from '../activities/types.ts';
import {
  checkDeliveryInput,
  DELIVERY_TASK_QUEUE,
  deliveryWorkflowId,
  isMoneyDelivery,
  REDELIVERY_MEMO,
  type DeliveryInput,
} from '../contract.ts';
import type { Cause, HeldReason } from '../policy/gate.ts';
import { withIntervention, type Intervention } from '../policy/interventions.ts';
import { nextCall, noCalls, takeRelease, type GateCalls } from '../policy/gate-calls.ts';
import {
  climb,
  judgeTryNow,
  nearestBound,
  newLadders,
  type Bound,
  type FailureReason,
  type Ladders,
} from '../policy/ladders.ts';
import { policyWith, type Policy } from '../policy/policy.ts';
import {
  attemptsInWords,
  heldState,
  statusInWords,
  type DeliveryState,
  type DeliveryStatus,
} from '../policy/status.ts';
import { outcomeUnknown, verdictInWords, type Verdict } from '../policy/verdicts.ts';
import { asCause, asRedelivery, asRelease } from './message-checks.ts';
import { metrics } from './metric-sinks.ts';
import {
  cancelCauseSignal,
  releaseSignal,
  statusQuery,
  tryNowSignal,
  tryNowUpdate,
  type TryNowOutcome,
} from './messages.ts';
import { tellOperators } from './notices.ts';
import { Undecodable } from './payload-converter.ts';

/** How long after a bound an attempt that was begun before it may still bring its verdict (R24), beside the exchange. */
const AFTER_BOUND_MS = 5_000;
/** A wait shorter than this is not published as a search attribute: it would be over before anyone looked. */
const PUBLISH_WAITS_FROM_MS = 60_000;

const stateKey = defineSearchAttributeKey('WebhookState', 'KEYWORD');
const merchantKey = defineSearchAttributeKey('WebhookMerchant', 'KEYWORD');
const eventKey = defineSearchAttributeKey('WebhookEvent', 'KEYWORD');
const paymentKey = defineSearchAttributeKey('WebhookPayment', 'KEYWORD');
const moneyKey = defineSearchAttributeKey('WebhookMoney', 'BOOL');

/** R6: our own faults are retried for as long as the delivery lives; a lost outcome is not retried (R7). */
const attemptRetry: RetryPolicy = {
  initialInterval: '1 second',
  backoffCoefficient: 2,
  maximumInterval: '30 seconds',
  nonRetryableErrorTypes: ['TemporalTimeout:StartToClose'],
};

/**
 * One webhook for one merchant, from acceptance to its end. Completes with the final {@link DeliveryStatus}
 * when delivered; fails with an `ApplicationFailure` of type `DeliveryFailed` that carries it otherwise (R80),
 * or of type `InvalidDeliveryInput` if the input breaks R71.
 */
export async function delivery(...inputs: unknown[]): Promise<DeliveryStatus> {
  const run = new DeliveryRun(accept(inputs));
  setHandler(statusQuery, () => run.status());
  setHandler(releaseSignal, (release) => run.release(release));
  setHandler(tryNowSignal, (cause) => run.askToTryNow(cause));
  setHandler(tryNowUpdate, (cause) => run.tryNow(cause));
  setHandler(cancelCauseSignal, (cause) => run.note('cancel', cause));
  return await run.untilItEnds();
}

/** A workflow checks its input itself, since anyone may have started it. */
function accept(inputs: readonly unknown[]): DeliveryInput {
  const [input, ...more] = inputs;
  if (more.length > 0) {
    throw invalidInput([`input must be one argument, not ${inputs.length}: leave out the others`]);
  }
  if (input instanceof Undecodable) {
    throw invalidInput([
      `input cannot be read (its payload has ${input.encoding}): send one JSON object, encoded as "json/plain"`,
    ]);
  }
  const checked = checkDeliveryInput(input);
  if (!checked.ok)
    throw invalidInput(checked.problems.map((problem) => `${problem.field} ${problem.message}`));
  const { merchantId, webhookId } = checked.input;
  const { workflowId, taskQueue } = workflowInfo();
  const expectedId = deliveryWorkflowId(merchantId, webhookId);
  if (workflowId !== expectedId) throw invalidInput([`workflowId must be "${expectedId}"`]);
  // Elsewhere nobody runs a delivery's activities.
  if (taskQueue !== DELIVERY_TASK_QUEUE) throw invalidInput([`taskQueue must be "${DELIVERY_TASK_QUEUE}"`]);
  return checked.input;
}

function invalidInput(problems: string[]): ApplicationFailure {
  return ApplicationFailure.create({
    type: 'InvalidDeliveryInput',
    message: problems.join('; '),
    details: [problems],
    nonRetryable: true,
  });
}

interface Hold {
  readonly since: number;
  reason: HeldReason;
  /** R47: when the pause ends that it was told of when this hold began, Unix milliseconds. */
  readonly until: number;
  /** What it was told last, Unix milliseconds. */
  toldUntil: number | undefined;
  /** R47: how often it has asked by itself. */
  asks: number;
  /** Operators were told that it lasts long. */
  isTold: boolean;
}

interface Pause {
  readonly ladder: 'fast' | 'slow';
  readonly until: number;
  /** R83: somebody asked to try now. */
  tryNow?: { outcome?: TryNowOutcome };
}

class DeliveryRun {
  private readonly input: DeliveryInput;
  private readonly policy: Policy;
  private readonly money: boolean;
  private readonly acceptedAt: number;
  /** R81: when the webhook was accepted first, if this is not the first run. */
  private readonly firstAcceptedAt: string | undefined;
  private interventions: readonly Intervention[] = [];
  private ladders: Ladders = newLadders;
  private attempts = 0;
  private state: DeliveryState = 'attempting';
  private publishedState: DeliveryState | undefined;
  private lastVerdict: Verdict | undefined;
  private reason: FailureReason | undefined;
  private endedAt: number | undefined;
  private pause: Pause | undefined;
  private hold: Hold | undefined;
  private calls: GateCalls = noCalls;
  /** What operators want to be told of, as a worker said last. */
  private notices: NoticeSettings | undefined;
  /** R48: the permit that the last gate call used. */
  private permitInUse: number | undefined;

  constructor(input: DeliveryInput) {
    this.input = input;
    this.policy = policyWith(input.policy);
    this.money = isMoneyDelivery(input);
    const { startTime, memo } = workflowInfo();
    this.acceptedAt = startTime.getTime();
    const redelivery = asRedelivery(memo?.[REDELIVERY_MEMO]);
    this.firstAcceptedAt = redelivery?.createdAt;
    if (redelivery !== undefined) this.remember('redeliver', this.acceptedAt, redelivery);
  }

  async untilItEnds(): Promise<DeliveryStatus> {
    this.publishAttributesLeftOut();
    metrics.accepted(this.money);
    try {
      await this.untilDelivered();
    } catch (error) {
      if (isCancellation(error)) this.end('cancelled');
      throw error;
    } finally {
      const leaves = this.hold !== undefined && this.endedAt !== undefined;
      const tells = this.state === 'failed' && this.notices !== undefined;
      // Most deliveries have nothing to tidy up, and every promise here costs all of them.
      if (leaves || tells || !allHandlersFinished()) {
        await CancellationScope.nonCancellable(async () => {
          if (leaves) await this.leaveRoom();
          if (tells) await this.tellOfFailure();
          await condition(allHandlersFinished);
        });
      }
    }
    return this.status();
  }

  /** R90. */
  status(): DeliveryStatus {
    const { merchantId, webhookId, type, paymentId } = this.input;
    const open = this.endedAt === undefined;
    return {
      merchantId,
      webhookId,
      type,
      ...(paymentId === undefined ? {} : { paymentId }),
      money: this.money,
      state: this.state,
      acceptedAt: rfc3339(this.acceptedAt),
      ...(this.firstAcceptedAt === undefined ? {} : { firstAcceptedAt: this.firstAcceptedAt }),
      attempts: this.attempts,
      fastFailures: this.ladders.fastFailures,
      slowSteps: this.ladders.slowSteps,
      ...(this.pause === undefined ? {} : { nextAttemptAt: rfc3339(this.pause.until) }),
      ...this.holdToTell(),
      ...(open ? { endsAt: rfc3339(this.bound().at) } : {}),
      ...(this.endedAt === undefined ? {} : { endedAt: rfc3339(this.endedAt) }),
      ...(this.lastVerdict === undefined ? {} : { lastVerdict: this.lastVerdict }),
      ...(this.reason === undefined ? {} : { reason: this.reason }),
      ...(this.interventions.length === 0 ? {} : { interventions: this.interventions }),
    };
  }

  /** R90. During a trial it is held no more, but keeps its place. */
  private holdToTell(): Partial<DeliveryStatus> {
    if (this.hold === undefined) return {};
    const { since, reason, toldUntil } = this.hold;
    return {
      heldSince: rfc3339(since),
      ...(this.state === heldState[reason] ? { reason } : {}),
      ...(this.state !== heldState[reason] || toldUntil === undefined
        ? {}
        : { heldUntil: rfc3339(toldUntil) }),
    };
  }

  release(message: unknown): void {
    const release = asRelease(message);
    if (release !== undefined) this.calls = takeRelease(this.calls, release);
  }

  /** Remembers what an operator asked, and shows it. */
  note(what: Intervention['what'], cause: unknown): void {
    this.remember(what, Date.now(), asCause(cause));
    setCurrentDetails(statusInWords(this.status(), this.policy));
  }

  /** R83, as a signal: nobody waits to be told. */
  askToTryNow(cause: unknown): void {
    this.note('try-now', cause);
    if (this.pause !== undefined) this.pause.tryNow ??= {};
  }

  /** R83, as an update: answers when the attempt has its verdict. */
  async tryNow(cause: unknown): Promise<TryNowOutcome> {
    this.note('try-now', cause);
    if (this.hold !== undefined) return { outcome: 'held', reason: this.hold.reason };
    if (this.pause === undefined) return { outcome: 'already-attempting' };
    const request = (this.pause.tryNow ??= {});
    await condition(() => request.outcome !== undefined);
    return request.outcome ?? { outcome: 'cancelled' };
  }

  private remember(what: Intervention['what'], at: number, { by, why }: Cause): void {
    this.interventions = withIntervention(this.interventions, {
      at: rfc3339(at),
      what,
      ...(by === undefined ? {} : { by }),
      ...(why === undefined ? {} : { why }),
    });
  }

  private async untilDelivered(): Promise<void> {
    for (;;) {
      this.failAtBound();
      const result = await this.attempt();
      switch (result.type) {
        case 'held':
          await this.untilReleased();
          break;
        case 'bound-reached':
          await condition(() => false, this.untilBound());
          break;
        case 'verdict': {
          if (result.verdict.kind !== 'delivered') this.failAtBound();
          const now = Date.now();
          const { ladders, decision } = climb(this.policy, this.ladders, result.verdict, this.money, now);
          this.ladders = ladders;
          if (decision.next === 'end-delivered') return this.end('delivered');
          if (decision.next === 'end-failed') throw this.failed(decision.reason);
          if (await this.deliveredDuringPause(decision.ladder, decision.pauseMs))
            return this.end('delivered');
          break;
        }
      }
    }
  }

  /** One activity: gate, sign, POST. Its verdict is returned whatever it is; only cancellation throws (R82). */
  private async attempt(tryNow = false): Promise<AttemptResult> {
    const startedAt = Date.now();
    this.enter('attempting');
    let result: AttemptResult;
    try {
      result = await this.callAttempt(tryNow);
    } catch (error) {
      result = this.whatEnded(error, startedAt);
    }
    this.notices = result.notices ?? this.notices;
    if (result.type === 'verdict') {
      this.attempts += 1;
      this.lastVerdict = result.verdict;
      this.measure(result.verdict);
      this.hold = undefined;
    }
    if (result.type === 'held' && !tryNow) this.refused(result);
    // R82: a POST in flight was let finish; 2xx is delivered, anything else is cancelled.
    const delivered = result.type === 'verdict' && result.verdict.kind === 'delivered';
    if (CancellationScope.current().consideredCancelled && !delivered) {
      throw new CancelledFailure('cancelled during an attempt');
    }
    return result;
  }

  private callAttempt(tryNow: boolean): Promise<AttemptResult> {
    const { attemptTimeoutMs, attemptOverheadMs } = this.policy;
    const number = this.attempts + 1;
    const { attempt } = proxyActivities<DeliveryActivities>({
      startToCloseTimeout: attemptTimeoutMs + attemptOverheadMs,
      scheduleToCloseTimeout: this.untilBound() + attemptTimeoutMs + AFTER_BOUND_MS,
      retry: attemptRetry,
      cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
      priority: { fairnessKey: this.input.merchantId },
      summary: `attempt ${number}${tryNow ? ' (try now)' : ''}`,
    });
    return attempt({
      gate: this.gateRequest(tryNow),
      body: this.input.body,
      createdAt: this.firstAcceptedAt ?? rfc3339(this.acceptedAt),
      attempt: number,
      timeoutMs: attemptTimeoutMs,
      postWithinMs: this.untilBound(),
    });
  }

  /** What an attempt that did not return means: R7, a bound, or a cancellation; anything else is passed on. */
  private whatEnded(error: unknown, startedAt: number): AttemptResult {
    if (!(error instanceof ActivityFailure)) throw error;
    if (error.cause instanceof TimeoutFailure && error.cause.timeoutType === 'START_TO_CLOSE') {
      return { type: 'verdict', verdict: outcomeUnknown(Date.now() - startedAt) };
    }
    if (isCancellation(error) || CancellationScope.current().consideredCancelled) {
      throw new CancelledFailure('cancelled during an attempt');
    }
    // R6: our own fault lasted until no further try would have fitted before the bound.
    if (error.cause instanceof TimeoutFailure || error.retryState === 'TIMEOUT') {
      return { type: 'bound-reached' };
    }
    throw error;
  }

  /** R10, R20: waits out a ladder pause, cut at a bound (R21, R24). Tells whether a try now has delivered meanwhile. */
  private async deliveredDuringPause(ladder: 'fast' | 'slow', pauseMs: number): Promise<boolean> {
    const pause: Pause = { ladder, until: Date.now() + Math.min(pauseMs, this.untilBound()) };
    this.pause = pause;
    try {
      for (;;) {
        const waitMs = pause.until - Date.now();
        if (waitMs <= 0) return false;
        this.enter(ladder === 'fast' ? 'waiting-fast' : 'waiting-slow', waitMs);
        const asked = await condition(() => pause.tryNow !== undefined, waitMs, {
          summary: this.pauseSummary(ladder),
        });
        if (!asked) return false;
        if (await this.tryNowDelivers(pause)) return true;
      }
    } finally {
      this.pause = undefined;
    }
  }

  /** R83: an attempt that spends no budget; the pause goes on unless its verdict ends the delivery. */
  private async tryNowDelivers(pause: Pause): Promise<boolean> {
    const answer = (outcome: TryNowOutcome) => {
      if (pause.tryNow !== undefined) pause.tryNow.outcome = outcome;
      delete pause.tryNow;
    };
    const result = await this.attempt(true);
    if (result.type === 'held') return (answer({ outcome: 'held', reason: result.reason }), false);
    if (result.type === 'bound-reached') {
      answer({ outcome: 'failed', reason: this.bound().reason });
      return false;
    }
    const { verdict } = result;
    const decision = judgeTryNow(verdict, this.money);
    switch (decision.next) {
      case 'end-delivered':
        answer({ outcome: 'delivered', verdict });
        return true;
      case 'end-failed':
        answer({ outcome: 'failed', reason: decision.reason, verdict });
        throw this.failed(decision.reason);
      case 'pause-goes-on':
        answer({ outcome: 'pause-goes-on', verdict, nextAttemptAt: rfc3339(pause.until) });
        return false;
    }
  }

  /** R50: notes a refusal; the hold keeps its beginning when the delivery asks again. */
  private refused({ reason, since, until }: Held): void {
    this.hold ??= { since, reason, until: until ?? Date.now(), toldUntil: until, asks: 0, isTold: false };
    this.hold.toldUntil = until;
    if (reason !== 'draining') this.hold.reason = reason;
  }

  /** R47, R50: waits to be woken, and as a safety net asks by itself now and then, until the gate lets it pass. */
  private async untilReleased(): Promise<void> {
    while (this.hold !== undefined) {
      if (await this.releasedDuring(this.hold)) return;
      this.failAtBound();
      this.hold.asks += 1;
      const answer = await this.ask();
      this.notices = answer.notices ?? this.notices;
      if (answer.type === 'pass') return;
      this.refused(answer);
    }
  }

  /** Until it is to ask by itself; tells operators meanwhile of a hold that has become long. */
  private async releasedDuring(hold: Hold): Promise<boolean> {
    const waitMs = Math.min(this.untilNextAsk(hold), this.untilBound());
    const until = Date.now() + waitMs;
    this.enter(heldState[hold.reason], waitMs);
    const tellAt =
      this.notices === undefined || hold.isTold
        ? Number.POSITIVE_INFINITY
        : hold.since + this.notices.heldAfterMs;
    if (tellAt < until) {
      if (await this.releasedWithin(tellAt - Date.now(), 'held: tells operators')) return true;
      hold.isTold = true;
      await this.tellOfHold(hold);
    }
    return await this.releasedWithin(until - Date.now(), 'held: asks by itself');
  }

  private async releasedWithin(ms: number, summary: string): Promise<boolean> {
    return await condition(() => this.calls.released !== undefined, Math.max(0, ms), { summary });
  }

  private async tellOfFailure(): Promise<void> {
    await tellOperators({
      id: `delivery-failed.${workflowInfo().runId}`,
      type: 'hookladder.delivery_failed',
      ...this.factsToTell(this.reason ?? ''),
    });
  }

  /** One for a merchant in each such time: all its deliveries make the same id. */
  private async tellOfHold({ reason, since }: Hold): Promise<void> {
    const { heldAfterMs = 1 } = this.notices ?? {};
    await tellOperators({
      id: `delivery-held.${this.input.merchantId}.${Math.floor(Date.now() / heldAfterMs)}`,
      type: 'hookladder.delivery_held',
      ...this.factsToTell(reason),
      heldSince: rfc3339(since),
    });
  }

  private factsToTell(reason: string) {
    const { merchantId, webhookId, type: event, paymentId } = this.input;
    const { money, attempts, lastVerdict } = this;
    return {
      at: rfc3339(Date.now()),
      merchantId,
      webhookId,
      event,
      ...(paymentId === undefined ? {} : { paymentId }),
      money,
      attempts,
      reason,
      ...(lastVerdict === undefined ? {} : { lastAnswer: verdictInWords(lastVerdict) }),
    };
  }

  /** R47: once soon after the hold began, then rarely; spread so that deliveries do not ask all at once. */
  private untilNextAsk(hold: Hold): number {
    const { firstAskMs, firstAskSpreadMs, askEveryMs, askEverySpreadMs } = this.policy.held;
    if (hold.asks > 0) return askEveryMs + Math.random() * askEverySpreadMs;
    const untilPauseEnds = Math.max(0, hold.until - Date.now());
    return untilPauseEnds + Math.max(0, firstAskMs + (Math.random() * 2 - 1) * firstAskSpreadMs);
  }

  /** An activity of its own that carries no body: asks would otherwise fill the history in weeks. */
  private async ask() {
    const { ask } = proxyActivities<DeliveryActivities>({
      startToCloseTimeout: this.policy.attemptOverheadMs,
      scheduleToCloseTimeout: this.untilBound() + AFTER_BOUND_MS,
      retry: { initialInterval: '1 second', maximumInterval: '30 seconds' },
      priority: { fairnessKey: this.input.merchantId },
      summary: 'held: asks the gate',
    });
    try {
      return await ask(this.gateRequest());
    } catch (error) {
      if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error;
      // Our own fault lasted until the bound.
      await condition(() => false, this.untilBound());
      this.failAtBound();
      throw error;
    }
  }

  /** R82: a held delivery that ends leaves the waiting room. */
  private async leaveRoom(): Promise<void> {
    const { merchantId, webhookId } = this.input;
    const { leaveRoom } = proxyActivities<DeliveryActivities>({
      startToCloseTimeout: this.policy.attemptOverheadMs,
      scheduleToCloseTimeout: 4 * this.policy.attemptOverheadMs,
      summary: 'leaves the waiting room',
    });
    try {
      const permit = this.calls.released?.permit ?? this.permitInUse;
      await leaveRoom({ merchantId, webhookId, ...(permit === undefined ? {} : { permit }) });
    } catch (error) {
      // The entity drops a delivery that has ended when it would wake it: only tidiness is lost.
      if (!(error instanceof ActivityFailure)) throw error;
      log.warn('could not leave the waiting room', { merchantId, webhookId, error: error.message });
    }
  }

  private gateRequest(tryNow = false): GateRequest {
    const { released } = this.calls;
    this.calls = nextCall(this.calls);
    this.permitInUse = released?.permit;
    return {
      merchantId: this.input.merchantId,
      webhookId: this.input.webhookId,
      call: this.calls.call,
      fastFailures: this.ladders.fastFailures,
      ...(this.hold === undefined ? {} : { heldSince: this.hold.since }),
      ...(released === undefined ? {} : { releasedAtVersion: released.version }),
      ...(released?.permit === undefined ? {} : { permit: released.permit }),
      ...(tryNow ? { tryNow } : {}),
    };
  }

  private bound(): Bound {
    return nearestBound(this.policy, this.ladders, this.acceptedAt);
  }

  private untilBound(): number {
    return Math.max(0, this.bound().at - Date.now());
  }

  private failAtBound(): void {
    const bound = this.bound();
    if (Date.now() >= bound.at) throw this.failed(bound.reason);
  }

  private failed(reason: FailureReason): ApplicationFailure {
    this.reason = reason;
    this.end('failed');
    const last =
      this.lastVerdict === undefined ? 'never attempted' : `last answer: ${verdictInWords(this.lastVerdict)}`;
    return ApplicationFailure.create({
      type: 'DeliveryFailed',
      message: `${reason} after ${attemptsInWords(this.attempts)}; ${last}`,
      details: [this.status()],
      nonRetryable: true,
    });
  }

  private end(state: 'delivered' | 'failed' | 'cancelled'): void {
    this.endedAt = Date.now();
    this.pause = undefined;
    this.enter(state);
    metrics.ended(state, this.reason ?? '', this.money, this.endedAt - this.acceptedAt);
  }

  /** Takes on a state and tells it to the Temporal UI; a wait is also published as a search attribute if it is long. */
  private enter(state: DeliveryState, waitMs = 0): void {
    const isNew = state !== this.state;
    this.state = state;
    const status = this.status();
    if (isNew) this.logState(status);
    setCurrentDetails(statusInWords(status, this.policy));
    if (waitMs < PUBLISH_WAITS_FROM_MS || state === this.publishedState) return;
    this.publishedState = state;
    upsertSearchAttributes([{ key: stateKey, value: state }]);
  }

  /** One line for each transition; attempts have their own. */
  private logState(status: DeliveryStatus): void {
    const { merchantId, webhookId, state, attempts, reason, nextAttemptAt, heldUntil } = status;
    if (state === 'attempting') return;
    log[state === 'failed' ? 'warn' : 'info']('delivery', {
      merchantId,
      webhookId,
      state,
      attempts,
      ...(reason === undefined ? {} : { reason }),
      ...(nextAttemptAt === undefined ? {} : { nextAttemptAt }),
      ...(heldUntil === undefined ? {} : { heldUntil }),
    });
  }

  private measure(verdict: Verdict): void {
    metrics.attempted(verdict.kind, 'code' in verdict ? verdict.code : '', verdict.durationMs);
  }

  private pauseSummary(ladder: 'fast' | 'slow'): string {
    const { fastFailures, slowSteps } = this.ladders;
    return ladder === 'fast'
      ? `fast ladder: pause ${fastFailures} of ${this.policy.fast.budget - 1}`
      : `slow ladder: step ${slowSteps} of ${this.policy.slow.stepsMs.length}`;
  }

  /** Our own client sets these at the start, where they cost nothing; others may leave them to us. */
  private publishAttributesLeftOut(): void {
    const present = workflowInfo().typedSearchAttributes;
    const { merchantId, type, paymentId } = this.input;
    const missing: SearchAttributePair[] = [];
    if (present.get(merchantKey) !== merchantId) missing.push({ key: merchantKey, value: merchantId });
    if (present.get(eventKey) !== type) missing.push({ key: eventKey, value: type });
    if (present.get(moneyKey) !== this.money) missing.push({ key: moneyKey, value: this.money });
    if (paymentId !== undefined && present.get(paymentKey) !== paymentId) {
      missing.push({ key: paymentKey, value: paymentId });
    }
    if (missing.length > 0) upsertSearchAttributes(missing);
  }
}

function rfc3339(unixMs: number): string {
  return new Date(unixMs).toISOString();
}
