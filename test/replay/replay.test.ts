import { fileURLToPath } from 'node:url';
import { Worker, type InjectedSinks, type ReplayWorkerOptions } from '@temporalio/worker';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import type { DeliveryActivities, MerchantActivities, NoticeActivities } from '../../src/activities/types.ts';
import type { BulkActivities, CensusActivities, GateRequest } from '../../src/activities/types.ts';
import { DELIVERY_TASK_QUEUE } from '../../src/contract.ts';
import type { GateView, HeldReason } from '../../src/policy/gate.ts';
import type { Intervention } from '../../src/policy/interventions.ts';
import type { FailureReason } from '../../src/policy/ladders.ts';
import { policyWith } from '../../src/policy/policy.ts';
import { heldState, type DeliveryState } from '../../src/policy/status.ts';
import type { Verdict } from '../../src/policy/verdicts.ts';
import { VERSION } from '../../src/version.ts';
import { bundleWorkflows, converterPaths, type WorkflowBundleOption } from '../../src/workers.ts';
import { MerchantState, type MerchantSnapshot, type Transition } from '../../src/workflows/merchant-state.ts';
import type { MetricSinks } from '../../src/workflows/metric-sinks.ts';
import { folderFor, readRecordings, type Recording } from './recording.ts';

/** What a replay shows of the states that a workflow went through. */
interface Seen {
  readonly states: Set<string>;
  readonly reasons: Set<string>;
  readonly verdicts: Set<string>;
  readonly transitions: Set<string>;
}

type Sinks = NonNullable<ReplayWorkerOptions['sinks']>;

let recordings: Recording[];
let seen: Seen;
let problems: string[];

beforeAll(async () => {
  recordings = await readRecordings();
  seen = { states: new Set(), reasons: new Set(), verdicts: new Set(), transitions: new Set() };
  problems = await replay({ codePath: inject('workflowBundlePath') }, recordings, sinksInto(seen));
}, 120_000);

/** One line for each recording that this workflow code does not replay. */
async function replay(
  workflowBundle: WorkflowBundleOption,
  histories: readonly Recording[],
  sinks: Sinks = sinksInto(undefined),
): Promise<string[]> {
  // A delivery looks at its task queue, which the types leave out.
  const options: ReplayWorkerOptions & { taskQueue: string } = {
    taskQueue: DELIVERY_TASK_QUEUE,
    workflowBundle,
    dataConverter: converterPaths,
    sinks,
  };
  const lines: string[] = [];
  const results = Worker.runReplayHistories(options, histories);
  for (const { name } of histories) {
    const { value } = await results.next();
    if (value?.error !== undefined) lines.push(`${name}: ${value.error.name}: ${value.error.message}`);
  }
  await results.return?.();
  return lines;
}

/** The sinks of workflows, called in a replay too. */
function sinksInto(into: Seen | undefined): Sinks {
  const callDuringReplay = true;
  const nothing = { fn: () => undefined, callDuringReplay };
  const line = {
    fn: (_info: unknown, message: string, attributes?: Record<string, unknown>) => {
      if (message !== 'delivery') return;
      into?.states.add(String(attributes?.['state']));
      into?.reasons.add(String(attributes?.['reason']));
    },
    callDuringReplay,
  };
  return {
    defaultWorkerLogger: { trace: line, debug: line, info: line, warn: line, error: line },
    traces: { ended: nothing },
    metrics: {
      accepted: nothing,
      ended: nothing,
      attempted: {
        fn: (_info, verdict) => {
          into?.states.add('attempting');
          into?.verdicts.add(verdict);
        },
        callDuringReplay,
      },
      transition: { fn: (_info, event) => void into?.transitions.add(event), callDuringReplay },
    } satisfies InjectedSinks<MetricSinks>['metrics'],
  };
}

/** Every key: the compiler sees to it that none is left out. */
function allOf<Key extends string>(keys: Record<Key, true>): Key[] {
  return Object.keys(keys) as Key[];
}

function eventsOf(type: string) {
  return recordings.filter(({ history }) =>
    history.events?.some((event) => event[type as keyof typeof event] != null),
  );
}

describe('recorded histories', () => {
  test('of this release and all before it are replayed by the workflows as they are', () => {
    expect(problems).toEqual([]);
    const ours = recordings.filter(({ name }) => name.startsWith(`${VERSION}/`));
    expect(ours.length, 'a release is recorded by `npm run histories`').toBeGreaterThan(60);
  });

  test('of a release are not written over unasked', async () => {
    await expect(folderFor(VERSION, false)).rejects.toThrow('EEXIST');
  });

  test('are replayed by workers that trace too', async () => {
    expect(await replay(await bundleWorkflows({ traces: true }), recordings)).toEqual([]);
  });

  test('hold nothing of the machine that recorded them', () => {
    const texts = recordings.map(({ history, values }) => JSON.stringify([history, values]));
    expect(texts.filter((text) => /node_modules|\d+@(?!recorder)[a-z]/.test(text))).toEqual([]);
  });

  test('R90 show a delivery in every state, held for every reason, failed for every reason, after every verdict', () => {
    const states = allOf<Exclude<DeliveryState, 'own-fault'>>({
      attempting: true,
      'waiting-fast': true,
      'waiting-slow': true,
      'held-breaker': true,
      'held-no-endpoint': true,
      'held-paused': true,
      delivered: true,
      failed: true,
      cancelled: true,
    });
    expect([...seen.states]).toEqual(expect.arrayContaining(states));
    expect([...seen.reasons]).toEqual(expect.arrayContaining(allOf<HeldReason>(mapped(heldState))));
    const reasons = allOf<FailureReason>({
      rejected: true,
      'fast-ladder-exhausted': true,
      'slow-ladder-exhausted': true,
      'slow-ladder-ceiling': true,
      expired: true,
    });
    expect([...seen.reasons]).toEqual(expect.arrayContaining(reasons));
    const verdicts = allOf<Verdict['kind']>({
      delivered: true,
      redirected: true,
      rejected: true,
      'rate-limited': true,
      'server-error': true,
      network: true,
      timeout: true,
      'address-blocked': true,
      'outcome-unknown': true,
    });
    expect([...seen.verdicts]).toEqual(expect.arrayContaining(verdicts));
  });

  test('R6 R81 show own faults, redeliveries, and all that an operator can ask of a delivery', () => {
    const retried = recordings.filter(({ history }) =>
      history.events?.some((event) => Number(event.activityTaskStartedEventAttributes?.attempt) > 1),
    );
    expect(retried.map(({ name }) => name)).toContain(`${VERSION}/delivery.own-fault-then-delivered`);
    const asked = recordings.flatMap(({ values }) => values.flatMap(interventionsIn));
    const whats = allOf<Intervention['what']>({ redeliver: true, 'try-now': true, cancel: true });
    expect(asked).toEqual(expect.arrayContaining(whats));
    const permits = recordings.flatMap(({ values }) =>
      values.flatMap((value) => gateOf(value)?.permit ?? []),
    );
    expect(permits).not.toEqual([]);
  });

  test('R41–R53 show a merchant’s entity in every transition and every kind of state', () => {
    const transitions = allOf<Transition['event']>({
      opened: true,
      'trial-due': true,
      'trial-failed': true,
      'trial-passed': true,
      'permit-lost': true,
      reset: true,
      recovered: true,
      'address-set': true,
      'endpoint-set': true,
      'address-removed': true,
      'secret-rotated': true,
      'secret-promoted': true,
      'rotation-ended': true,
      paused: true,
      resumed: true,
    });
    expect([...seen.transitions]).toEqual(expect.arrayContaining(transitions));
    const views = recordings.flatMap(({ values }) => values.filter(isView));
    const kinds: Record<string, (view: GateView) => boolean> = {
      closed: ({ circuit }) => circuit.state === 'closed',
      open: ({ circuit }) => circuit.state === 'open',
      'half-open, nobody tries': ({ circuit }) =>
        circuit.state === 'half-open' && circuit.permit === undefined,
      'half-open with a permit': ({ circuit }) =>
        circuit.state === 'half-open' && circuit.permit !== undefined,
      draining: ({ draining }) => draining,
      'a drain that waits': ({ drainPausedUntil }) => drainPausedUntil !== undefined,
      paused: ({ paused }) => paused !== undefined,
      'no address': ({ endpoint }) => endpoint === undefined,
      'two secrets': ({ endpoint }) => endpoint?.next !== undefined,
      'recent failures': ({ lastFailureAt }) => lastFailureAt !== undefined,
    };
    expect(Object.keys(kinds).filter((kind) => !views.some(kinds[kind] as never))).toEqual([]);
  });

  test('R51 R52 show an entity’s runs: continued, with a full room, with what operators were not told, lost and recovered', () => {
    const inputs = recordings.flatMap(({ values }) => values.filter(isMerchantInput));
    const places = ({ policy, state }: MerchantInput) => state.room.length === policy?.room?.places;
    expect(inputs.filter(places)).not.toEqual([]);
    expect(inputs.filter(({ state }) => state.circuit.state === 'open')).not.toEqual([]);
    expect(inputs.filter(({ notices = [] }) => notices.length > 0)).not.toEqual([]);
    expect(recordings.flatMap(({ values }) => values.filter((value) => has(value, 'lost')))).not.toEqual([]);
  });

  test('show every activity, and every way in which a run ends', () => {
    const activities = allOf<
      | keyof DeliveryActivities
      | keyof MerchantActivities
      | keyof NoticeActivities
      | keyof CensusActivities
      | keyof BulkActivities
    >({
      attempt: true,
      sendTest: true,
      ask: true,
      leaveRoom: true,
      wake: true,
      notify: true,
      takeCensus: true,
      countTargets: true,
      findTargets: true,
      treat: true,
    });
    const scheduled = recordings.flatMap(({ history }) =>
      (history.events ?? []).map((event) => event.activityTaskScheduledEventAttributes?.activityType?.name),
    );
    expect(scheduled).toEqual(expect.arrayContaining(activities));
    for (const end of ['Completed', 'Failed', 'Canceled', 'ContinuedAsNew', 'Terminated']) {
      expect(eventsOf(`workflowExecution${end}EventAttributes`), end).not.toEqual([]);
    }
    expect(eventsOf('activityTaskTimedOutEventAttributes')).not.toEqual([]);
    expect(eventsOf('activityTaskCancelRequestedEventAttributes')).not.toEqual([]);
  });
});

describe('a workflow that is changed as it must not be', () => {
  test.each([
    ['an extra timer', 'extra-timer', ['delivery.waiting-slow', 'merchant.open', 'bulk.under-way']],
    ['a shorter ladder without `patched()`', 'unpatched-ladder', ['delivery.fast-ladder-exhausted']],
  ])('%s fails the replay', async (_change, fixture, names) => {
    const lines = await replay(await bundled(fixture), recordings);
    for (const name of names) {
      const line = `${VERSION}/${name}: DeterminismViolationError: `;
      expect(lines).toContainEqual(expect.stringContaining(line));
    }
  });

  test('other lengths of pauses are not seen by a replay: docs/upgrades.md says so', async () => {
    expect(await replay(await bundled('other-pauses'), recordings)).toEqual([]);
  });
});

async function bundled(fixture: string): Promise<WorkflowBundleOption> {
  const workflowsPath = fileURLToPath(new URL(`./fixtures/${fixture}.ts`, import.meta.url));
  return await bundleWorkflows({ workflowsPath });
}

describe('what one version hands to another', () => {
  test('R51 what an entity of a newer version knows beside all else is carried through a run on this one', () => {
    const policy = policyWith(undefined);
    const newer = { ...new MerchantState(policy).snapshot(), addedLater: { of: 'a newer version' } };
    const state = new MerchantState(policy, newer);
    state.pause({ by: 'ann' }, 1);
    expect(state.snapshot()).toMatchObject({ addedLater: { of: 'a newer version' } });
  });
});

interface MerchantInput {
  readonly state: MerchantSnapshot;
  readonly policy?: { readonly room?: { readonly places?: number } };
  readonly notices?: readonly unknown[];
}

function has(value: unknown, field: string): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && field in value;
}

function isView(value: unknown): value is GateView {
  return has(value, 'circuit') && has(value, 'epoch');
}

function isMerchantInput(value: unknown): value is MerchantInput {
  return has(value, 'merchantId') && has(value['state'], 'room');
}

function gateOf(value: unknown): GateRequest | undefined {
  return has(value, 'gate') ? (value['gate'] as GateRequest) : undefined;
}

function interventionsIn(value: unknown): string[] {
  return has(value, 'interventions')
    ? (value['interventions'] as Intervention[]).map(({ what }) => what)
    : [];
}

function mapped<Key extends string>(object: Record<Key, unknown>): Record<Key, true> {
  return Object.fromEntries(Object.keys(object).map((key) => [key, true])) as Record<Key, true>;
}
