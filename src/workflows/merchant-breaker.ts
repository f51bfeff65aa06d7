import {
  ActivityCancellationType,
  allHandlersFinished,
  CancellationScope,
  condition,
  isCancellation,
  log,
  makeContinueAsNewFunc,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow';
import type { MerchantActivities, WakeResult } from '../activities/types.ts';
import { GATE_MEMO } from '../contract.ts';
import { policyWith, type PolicyOverrides } from '../policy/policy.ts';
import { asEndpoint, asReport } from './message-checks.ts';
import type { Place } from '../policy/waiting-room.ts';
import { MerchantState, type MerchantSnapshot } from './merchant-state.ts';
import { merchantQuery, removeEndpointSignal, reportSignal, setEndpointSignal } from './messages.ts';

/** The input of a merchant's entity. */
export interface MerchantInput {
  readonly merchantId: string;
  /** What the run before it knew. */
  readonly state?: MerchantSnapshot;
  /** Numbers that differ from the published policy; for tests and demos. */
  readonly policy?: PolicyOverrides;
  /** A run ends after this many signals; the default is far under the engine's limit of 10,000. */
  readonly signalsPerRun?: number;
}

const SIGNALS_PER_RUN = 500;
/** A run ends at least this often, so that deploys take hold. */
const LONGEST_RUN_MS = 24 * 60 * 60 * 1_000;
/** R46: a page of wake-ups takes at most this long, so that a change of the gate is obeyed soon. */
const PAGE_MS = 5_000;
/** A run ends in a moment without signals: those that arrive while it closes make their senders wait. */
const QUIET_MS = 30;
const QUIET_DEADLINE_MS = 2_000;

/**
 * One merchant's entity: keeps its endpoint and the waiting room of its held deliveries, publishes in the
 * memo what the gate needs, and wakes the held ones when they may go. Runs for ever by continue-as-new.
 */
export async function merchantBreaker(input: MerchantInput): Promise<void> {
  const { merchantId } = input;
  const policy = policyWith(input.policy);
  const state = new MerchantState(input.state);
  const endsAt = Date.now() + LONGEST_RUN_MS;
  let published = state.version;
  let signals = 0;
  let waking: CancellationScope | undefined;

  const publish = (): void => {
    setCurrentDetails(inWords(state));
    if (state.version === published) return;
    published = state.version;
    upsertMemo({ [GATE_MEMO]: state.view() });
  };
  /** A message changes the state, and what it changed is published in the same workflow task. */
  const apply = (name: string, change: (() => void) | undefined): void => {
    signals += 1;
    if (change === undefined) return log.warn(`ignored a malformed ${name}`, { merchantId });
    change();
    publish();
    if (!state.canDrain()) waking?.cancel();
  };
  setHandler(setEndpointSignal, (message) => {
    const endpoint = asEndpoint(message);
    apply('setEndpoint', endpoint && (() => state.setEndpoint(endpoint)));
  });
  setHandler(removeEndpointSignal, () => apply('removeEndpoint', () => state.removeEndpoint()));
  setHandler(reportSignal, (message) => {
    const report = asReport(message);
    apply('report', report && (() => state.report(report)));
  });
  setHandler(merchantQuery, () => ({ merchantId, gate: state.view(), held: state.held }));
  publish();

  /** R46: one page of the drain; broken off when the gate closes. */
  const drainPage = async (): Promise<void> => {
    const { perSecond } = policy.drain;
    const page = state.beginRelease(Math.max(1, Math.floor((perSecond * PAGE_MS) / 1_000)));
    waking = new CancellationScope();
    const request = { merchantId, page: page.map(toWake), version: state.version, perSecond };
    const { reached } = await waking.run(() => wake(request)).catch(nobodyReached);
    waking = undefined;
    state.endRelease(page, reached);
    publish();
  };
  const runIsLong = (): boolean =>
    signals >= (input.signalsPerRun ?? SIGNALS_PER_RUN) ||
    workflowInfo().continueAsNewSuggested ||
    Date.now() >= endsAt;

  // An entity serves until it is terminated: a cancellation from the UI must not lose its room.
  await CancellationScope.nonCancellable(async () => {
    while (!runIsLong()) {
      if (state.canDrain()) await drainPage();
      else await condition(() => state.canDrain() || runIsLong(), Math.max(1, endsAt - Date.now()));
    }
    await quietMoment(() => signals);
    await condition(allHandlersFinished);
  });
  const continueAsNew = makeContinueAsNewFunc<typeof merchantBreaker>({
    memo: { [GATE_MEMO]: state.view() },
  });
  await continueAsNew({ ...input, state: state.snapshot() });
}

const { wake } = proxyActivities<MerchantActivities>({
  startToCloseTimeout: 4 * PAGE_MS,
  heartbeatTimeout: PAGE_MS,
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '1 second', maximumInterval: '10 seconds' },
  summary: 'wakes held deliveries',
});

function toWake({ webhookId, call }: Place): Pick<Place, 'webhookId' | 'call'> {
  return { webhookId, call };
}

/** A page that was cancelled before it began has reached nobody. */
function nobodyReached(error: unknown): WakeResult {
  if (isCancellation(error)) return { reached: 0 };
  throw error;
}

/** Waits for a pause between signals, but not for long. */
async function quietMoment(signals: () => number): Promise<void> {
  const deadline = Date.now() + QUIET_DEADLINE_MS;
  let seen: number;
  do seen = signals();
  while ((await condition(() => signals() !== seen, QUIET_MS)) && Date.now() < deadline);
}

function inWords(state: MerchantState): string {
  const { endpoint, draining } = state.view();
  const held = `${state.held} held`;
  if (endpoint === undefined) return `no address; ${held}`;
  return `sends to ${endpoint.url}; ${draining ? `draining, ${held}` : held}`;
}
