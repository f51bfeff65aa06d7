import {
  ActivityCancellationType,
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  condition,
  isCancellation,
  log,
  makeContinueAsNewFunc,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { defineSearchAttributeKey } from '@temporalio/common';
import type { MerchantActivities, WakeResult } from '../activities/types.ts';
import { GATE_MEMO, merchantWorkflowId } from '../contract.ts';
import { policyWith, type PolicyOverrides } from '../policy/policy.ts';
import type { GateView } from '../policy/gate.ts';
import type { Place } from '../policy/waiting-room.ts';
import { asCause, asEndpoint, asReport, asRotation } from './message-checks.ts';
import { merchantInWords, merchantStatus } from './merchant-words.ts';
import { MerchantState, recovered, type MerchantSnapshot } from './merchant-state.ts';
import {
  merchantQuery,
  pauseSignal,
  promoteSecretSignal,
  removeEndpointSignal,
  reportSignal,
  resetBreakerSignal,
  resumeSignal,
  rotateSecretSignal,
  setEndpointSignal,
} from './messages.ts';

/** The input of a merchant's entity. */
export interface MerchantInput {
  readonly merchantId: string;
  /** What the run before it knew. */
  readonly state?: MerchantSnapshot;
  /** R52: what the gate of an entity that was terminated or lost showed last. */
  readonly lost?: GateView;
  /** Numbers that differ from the published policy; for tests and demos. */
  readonly policy?: PolicyOverrides;
  /** A run ends after this many signals; the default is far under the engine's limit of 10,000. */
  readonly signalsPerRun?: number;
}

/** One that comes while the run ends makes the engine replay it, and senders wait for as long: hence short runs. */
const SIGNALS_PER_RUN = 200;
/** A run ends at least this often, so that deploys take hold. */
const LONGEST_RUN_MS = 24 * 60 * 60 * 1_000;
/** R46: a page of wake-ups takes at most this long, so that a change of the gate is obeyed soon. */
const PAGE_MS = 5_000;
const HEARTBEAT_TIMEOUT_MS = 10_000;
/** A run ends in a moment without signals: those that arrive while it closes make their senders wait. */
const QUIET_MS = 30;
const QUIET_DEADLINE_MS = 500;

/**
 * One merchant's entity: keeps its endpoint, circuit and waiting room, publishes in the memo what the gate
 * needs, gives trials and wakes the held ones when they may go. Runs for ever by continue-as-new.
 */
export async function merchantBreaker(input: MerchantInput): Promise<void> {
  const { merchantId } = accept(input);
  const policy = policyWith(input.policy);
  const state = new MerchantState(policy, input.state ?? (input.lost && recovered(input.lost, Date.now())));
  const endsAt = Date.now() + LONGEST_RUN_MS;
  let signals = 0;
  /** The page of wake-ups under way, to be broken off when the gate closes. */
  let waking: CancellationScope | undefined;

  const publish = (): void => {
    const view = state.viewIfChanged();
    if (view === undefined) return;
    upsertMemo({ [GATE_MEMO]: view });
    publishState(view);
    setCurrentDetails(merchantInWords(view, state.held));
    if (!state.canDrain()) waking?.cancel();
  };
  /** A message changes the state, and what it changed is published in the same workflow task. */
  const apply = (change: (now: number) => void): void => {
    signals += 1;
    const now = Date.now();
    state.tick(now);
    change(now);
    publish();
  };
  const ignore = (name: string): void => {
    signals += 1;
    log.warn(`ignored a malformed ${name}`, { merchantId });
  };
  setHandler(setEndpointSignal, (message) => {
    const endpoint = asEndpoint(message);
    if (endpoint === undefined) return ignore('setEndpoint');
    apply((now) => state.setEndpoint(endpoint, now, asCause(message)));
  });
  setHandler(rotateSecretSignal, (message) => {
    const rotation = asRotation(message);
    if (rotation === undefined) return ignore('rotateSecret');
    apply((now) => state.rotateSecret(rotation, now));
  });
  setHandler(promoteSecretSignal, (message) => apply((now) => state.promoteSecret(asCause(message), now)));
  setHandler(removeEndpointSignal, (message) => apply((now) => state.removeEndpoint(asCause(message), now)));
  setHandler(resetBreakerSignal, (message) => apply((now) => state.reset(asCause(message), now)));
  setHandler(pauseSignal, (message) => apply((now) => state.pause(asCause(message), now)));
  setHandler(resumeSignal, (message) => apply((now) => state.resume(asCause(message), now)));
  setHandler(reportSignal, (message) => {
    const report = asReport(message);
    if (report === undefined) return ignore('report');
    apply((now) => state.report(report, now));
  });
  setHandler(merchantQuery, () => merchantStatus(merchantId, state, policy));
  setCurrentDetails(merchantInWords(state.view(), state.held));

  /** R44, R48: one wake-up with a permit; a delivery that has ended gives it to the next. */
  const tryOne = async ({ page, permit }: Trial): Promise<void> => {
    publish();
    const { ended } = await wake({
      merchantId,
      page: page.map(toWake),
      version: state.view().version,
      permit,
    });
    state.endRelease(page, page.length);
    if (ended > 0) state.takeBack(permit);
  };
  let dueAt = 0;
  /** R46: one page of the drain. */
  const drainPage = async (): Promise<void> => {
    const { perSecond } = policy.drain;
    const page = state.beginRelease(Math.max(1, Math.floor((perSecond * PAGE_MS) / 1_000)));
    const request = { merchantId, page: page.map(toWake), version: state.view().version, perSecond, dueAt };
    waking = new CancellationScope();
    const { reached, nextDueAt } = await waking.run(() => wake(request)).catch(nobodyReached);
    waking = undefined;
    dueAt = nextDueAt;
    state.endRelease(page, reached);
  };
  const runIsLong = (): boolean =>
    signals >= (input.signalsPerRun ?? SIGNALS_PER_RUN) ||
    workflowInfo().continueAsNewSuggested ||
    Date.now() >= endsAt;

  // An entity serves until it is terminated: a cancellation from the UI must not lose its room.
  await CancellationScope.nonCancellable(async () => {
    while (!runIsLong()) {
      const now = Date.now();
      state.tick(now);
      const trial = state.grantTrial(now);
      if (trial !== undefined) await tryOne(trial);
      else if (state.canDrain()) await drainPage();
      else {
        publish();
        const tickAt = state.nextTickAt();
        const hasWork = () => state.canGrantTrial() || state.canDrain() || runIsLong();
        await condition(
          () => hasWork() || state.nextTickAt() !== tickAt,
          Math.max(1, Math.min(tickAt, endsAt) - now),
        );
      }
      publish();
    }
    await quietMoment(() => signals);
    await condition(allHandlersFinished);
  });
  const continueAsNew = makeContinueAsNewFunc<typeof merchantBreaker>({
    memo: { [GATE_MEMO]: state.view() },
  });
  const { lost: _, ...next } = input;
  await continueAsNew({ ...next, state: state.snapshot() });
}

/** Anyone may have started it: an exception would block the workflow for good. */
function accept(input: unknown): { readonly merchantId: string } {
  const merchantId =
    typeof input === 'object' && input !== null && 'merchantId' in input ? input.merchantId : undefined;
  if (typeof merchantId === 'string' && workflowInfo().workflowId === merchantWorkflowId(merchantId)) {
    return { merchantId };
  }
  throw ApplicationFailure.nonRetryable(
    'input must have a merchantId, and the workflow id must be "breaker:" and that id: use the client instead',
    'InvalidMerchantInput',
  );
}

/** How the merchant stands, for a list of all; told when it changes. */
function publishState(view: GateView): void {
  const value = view.paused === undefined ? view.circuit.state : 'paused';
  if (workflowInfo().typedSearchAttributes.get(breakerKey) === value) return;
  upsertSearchAttributes([{ key: breakerKey, value }]);
}

const breakerKey = defineSearchAttributeKey('WebhookBreaker', 'KEYWORD');

type Trial = NonNullable<ReturnType<MerchantState['grantTrial']>>;

const { wake } = proxyActivities<MerchantActivities>({
  startToCloseTimeout: 4 * PAGE_MS,
  heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '1 second', maximumInterval: '10 seconds' },
  summary: 'wakes held deliveries',
});

function toWake({ webhookId, call }: Place): Pick<Place, 'webhookId' | 'call'> {
  return { webhookId, call };
}

/** A page that was cancelled before it began has reached nobody. */
function nobodyReached(error: unknown): Pick<WakeResult, 'reached' | 'nextDueAt'> {
  if (isCancellation(error)) return { reached: 0, nextDueAt: 0 };
  throw error;
}

/** Waits for a pause between signals, but not for long. */
async function quietMoment(signals: () => number): Promise<void> {
  const deadline = Date.now() + QUIET_DEADLINE_MS;
  let seen: number;
  do seen = signals();
  while ((await condition(() => signals() !== seen, QUIET_MS)) && Date.now() < deadline);
}
