import {
  ActivityCancellationType,
  ActivityFailure,
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  condition,
  defineSignal,
  isCancellation,
  log,
  makeContinueAsNewFunc,
  patched,
  proxyActivities,
  setCurrentDetails,
  setDefaultSignalHandler,
  setHandler,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { defineSearchAttributeKey } from '@temporalio/common';
import type { MerchantActivities, Notice, WakeResult } from '../activities/types.ts';
import { GATE_MEMO, merchantWorkflowId } from '../contract.ts';
import { policyWith, type PolicyOverrides } from '../policy/policy.ts';
import type { GateView } from '../policy/gate.ts';
import type { Place } from '../policy/waiting-room.ts';
import { asAddressChange, asCause, asEndpoint, asReport, asRotation } from './message-checks.ts';
import { breakerState, merchantInWords, merchantStatus } from './merchant-words.ts';
import { MerchantState, recovered, type MerchantSnapshot, type Transition } from './merchant-state.ts';
import { metrics } from './metric-sinks.ts';
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
  setUrlSignal,
} from './messages.ts';
import { BreakerNotices } from './notices.ts';

/** The input of a merchant's entity. */
export interface MerchantInput {
  readonly merchantId: string;
  /** What the run before it knew. */
  readonly state?: MerchantSnapshot;
  /** R52: what the gate of an entity that was terminated or lost showed last. */
  readonly lost?: GateView;
  /** What operators have not been told by the run before; absent where they want no notices. */
  readonly notices?: readonly Notice[];
  /** Numbers that differ from the published policy; for tests and demos. */
  readonly policy?: PolicyOverrides;
  /** A run ends after this many signals; the default is far under the engine's limit of 10,000. */
  readonly signalsPerRun?: number;
}

/** One that comes while the run ends makes the engine replay it, and senders wait for as long: hence short runs. */
const SIGNALS_PER_RUN = 200;
/** A run ends at least this often, so that deploys take hold. */
const LONGEST_RUN_MS = 24 * 60 * 60 * 1_000;
/**
 * R46: a page of wake-ups takes at most this long, so that a change of the gate is obeyed soon, and that few of it ask by
 * themselves before their turn, which makes their wake-ups void.
 */
const PAGE_MS = 2_000;
/** What it was before: see {@link drainsInShortPages}. */
const LONG_PAGE_MS = 5_000;
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
  if (input.lost !== undefined) tellTransition(merchantId, { at: Date.now(), event: 'recovered' });
  const notices = new BreakerNotices(merchantId, state.view().circuit.state === 'closed', input.notices);
  const endsAt = Date.now() + LONGEST_RUN_MS;
  let signals = 0;
  /** The page of wake-ups under way, to be broken off when the gate closes. */
  let waking: CancellationScope | undefined;

  const publish = (): void => {
    for (const transition of state.takeTransitions()) {
      tellTransition(merchantId, transition);
      notices.add(transition, state.view());
    }
    const view = state.viewIfChanged();
    setCurrentDetails(merchantInWords(state.view(), state.held));
    if (view === undefined) return;
    upsertMemo({ [GATE_MEMO]: view });
    publishState(view);
    if (!state.canDrain()) waking?.cancel();
  };
  /** A message changes the state, and what it changed is published in the same workflow task. */
  const apply = (change: Change): void => {
    signals += 1;
    const now = Date.now();
    state.tick(now);
    change(now);
    publish();
  };
  const takers = signalTakers(state, notices);
  const take = (name: string, message: unknown): void => {
    const change = takers.get(name)?.(message);
    if (change !== undefined) return apply(change);
    signals += 1;
    log.warn('ignored an unknown or malformed signal', { merchantId, signal: name });
  };
  // First, since signals that came before this run are handed over in the order of their arrival only to this one.
  setDefaultSignalHandler(take);
  for (const name of takers.keys())
    setHandler(defineSignal<[unknown]>(name), (message) => take(name, message));
  // Here, time is that of the last workflow task: whoever asks tells what time it is.
  setHandler(merchantQuery, (now) =>
    merchantStatus(merchantId, state, policy, typeof now === 'number' ? now : Date.now()),
  );
  setCurrentDetails(merchantInWords(state.view(), state.held));

  /** R44, R48: one wake-up with a permit; a delivery that has ended gives it to the next. */
  const tryOne = async ({ page, permit }: Trial): Promise<void> => {
    publish();
    const request = { merchantId, page: page.map(toWake), version: state.view().version, permit };
    const { reached, ended } = await wake(request).catch(nobodyReached);
    state.endRelease(page, reached);
    if (ended > 0) state.takeBack(permit);
  };
  let dueAt: number | undefined;
  /** R46: one page of the drain. */
  const drainPage = async (): Promise<void> => {
    publish();
    const { perSecond } = policy.drain;
    const pageMs = drainsInShortPages() ? PAGE_MS : LONG_PAGE_MS;
    const page = state.beginRelease(Math.max(1, Math.floor((perSecond * pageMs) / 1_000)));
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
    void tellOperatorsOf(notices);
    while (!runIsLong()) {
      const now = Date.now();
      state.tick(now);
      const trial = state.grantTrial(now);
      if (trial !== undefined) await tryOne(trial);
      else if (state.canDrain()) await drainPage();
      else {
        publish();
        // What was not drained in between is not owed.
        dueAt = undefined;
        const tickAt = state.nextTickAt();
        const hasWork = () => state.canGrantTrial() || state.canDrain() || runIsLong();
        await condition(
          () => hasWork() || state.nextTickAt() !== tickAt,
          Math.max(1, Math.min(tickAt, endsAt) - now),
        );
      }
      publish();
    }
    // Between two pages of a drain, waiting would only slow it down.
    if (!state.canDrain() || !drainsInShortPages()) await quietMoment(() => signals);
    await condition(allHandlersFinished);
  });
  const continueAsNew = makeContinueAsNewFunc<typeof merchantBreaker>({
    memo: { [GATE_MEMO]: state.view() },
  });
  const { lost: _, notices: __, ...next } = input;
  const { left } = notices;
  await continueAsNew({ ...next, state: state.snapshot(), ...(left === undefined ? {} : { notices: left }) });
}

/** Beside all else, for as long as the run lasts. */
async function tellOperatorsOf(notices: BreakerNotices): Promise<never> {
  for (;;) {
    await condition(() => notices.hasSome());
    await notices.tellOldest();
  }
}

type Change = (now: number) => void;

/** What each signal changes; `undefined` if its message is malformed. */
function signalTakers(
  state: MerchantState,
  notices: BreakerNotices,
): ReadonlyMap<string, (message: unknown) => Change | undefined> {
  return new Map<string, (message: unknown) => Change | undefined>([
    [
      setEndpointSignal.name,
      (message) => {
        const endpoint = asEndpoint(message);
        return endpoint && ((now) => state.setEndpoint(endpoint, now, asCause(message)));
      },
    ],
    [
      setUrlSignal.name,
      (message) => {
        const change = asAddressChange(message);
        return change && ((now) => state.setUrl(change, now));
      },
    ],
    [
      rotateSecretSignal.name,
      (message) => {
        const rotation = asRotation(message);
        return rotation && ((now) => state.rotateSecret(rotation, now));
      },
    ],
    [
      reportSignal.name,
      (message) => {
        const report = asReport(message);
        if (report?.notices) notices.want();
        return report && ((now) => state.report(report, now));
      },
    ],
    [promoteSecretSignal.name, (message) => (now) => state.promoteSecret(asCause(message), now)],
    [removeEndpointSignal.name, (message) => (now) => state.removeEndpoint(asCause(message), now)],
    [resetBreakerSignal.name, (message) => (now) => state.reset(asCause(message), now)],
    [pauseSignal.name, (message) => (now) => state.pause(asCause(message), now)],
    [resumeSignal.name, (message) => (now) => state.resume(asCause(message), now)],
  ]);
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

/** What an operator may have to look at. */
const alarming: ReadonlySet<Transition['event']> = new Set([
  'opened',
  'trial-failed',
  'permit-lost',
  'recovered',
]);

function tellTransition(merchantId: string, transition: Transition): void {
  // An address may have a token in its path: it stays out of the log.
  const { at: _, from: __, to: ___, event, ...facts } = transition;
  metrics.transition(event);
  log[alarming.has(event) ? 'warn' : 'info']('merchant', { merchantId, event, ...facts });
}

function publishState(view: GateView): void {
  const value = breakerState(view);
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

/**
 * A page that was cancelled, or whose worker died while it was, is not tried again by Temporal. Whom it reached is not
 * known: all keep their places, and one that is woken twice for the same call goes once.
 */
function nobodyReached(error: unknown): WakeResult {
  if (!isCancellation(error) && !(error instanceof ActivityFailure)) throw error;
  return { reached: 0, ended: 0 };
}

/** False in the replay of what an entity did while its pages were of five seconds. */
function drainsInShortPages(): boolean {
  return patched('short-pages');
}

/** Waits for a pause between signals, but not for long. */
async function quietMoment(signals: () => number): Promise<void> {
  const deadline = Date.now() + QUIET_DEADLINE_MS;
  let seen: number;
  do seen = signals();
  while ((await condition(() => signals() !== seen, QUIET_MS)) && Date.now() < deadline);
}
