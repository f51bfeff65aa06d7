import { createHash } from 'node:crypto';
import { WorkflowNotFoundError, type WorkflowHandle } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { pMapIterable, pMapSkip } from 'p-map';
import type { AttemptResult } from '../activities/types.ts';
import { checkDeliveryInput, deliveryIds, isMoneyDelivery, REDELIVERY_MEMO } from '../contract.ts';
import { isAskedFor, visibilityQuery, type DeliveryFilter } from '../filter.ts';
import { decodePayloads } from '../payloads.ts';
import type { HeldReason } from '../policy/gate.ts';
import type { Intervention } from '../policy/interventions.ts';
import type { DeliveryStatus } from '../policy/status.ts';
import { outcomeUnknown, type Verdict } from '../policy/verdicts.ts';
import { visibilityPage, type Found } from '../visibility.ts';
import { asCause, asRedelivery } from '../workflows/message-checks.ts';
import type { TemporalCalls } from './temporal-calls.ts';

/** One attempt as the history has it. Times are RFC 3339 in UTC, by Temporal's clock. */
export interface ExportedAttempt {
  /** When it was put into the queue. */
  readonly scheduledAt: string;
  /** When a worker took it, the last time if it was tried more than once. */
  readonly startedAt?: string;
  readonly endedAt: string;
  /** How often a worker took it: faults of our own before the POST (R6) and bounces are tried again. */
  readonly tries?: number;
  /** Where it was posted to, without user and query. Absent if the worker was lost during the attempt. */
  readonly url?: string;
  readonly verdict: Verdict;
}

/** One run of a delivery that has ended: what a dispute needs. A redelivery is a run of its own. */
export interface ExportedDelivery {
  readonly merchantId: string;
  readonly webhookId: string;
  readonly runId: string;
  readonly state: 'delivered' | 'failed' | 'cancelled';
  /** Why it failed, or how others ended it. */
  readonly reason?: string;
  /** Absent, like the body's facts, if it was started with an input that breaks R71. */
  readonly type?: string;
  readonly paymentId?: string;
  readonly money?: boolean;
  readonly acceptedAt: string;
  /** R81: when the webhook was accepted first, if this run is a redelivery. */
  readonly firstAcceptedAt?: string;
  readonly endedAt: string;
  /** Of its bytes as they were sent, in hex. */
  readonly bodySha256?: string;
  readonly bodyBytes?: number;
  /** Only where it is asked for. */
  readonly body?: string;
  readonly attempts: readonly ExportedAttempt[];
  /** Each time that it was held: since when, and what held it first. */
  readonly holds: readonly { readonly since: string; readonly reason: HeldReason }[];
  /** What operators asked of it, oldest first. */
  readonly interventions: readonly (Omit<Intervention, 'what'> & {
    readonly what: Intervention['what'] | 'terminate';
  })[];
}

/** What of an export is wanted. */
export interface ExportOptions {
  /** With the bodies; they may hold personal data. False by default. */
  readonly bodies?: boolean;
  /** Runs that are left out, such as those that an export which was broken off has written. */
  readonly known?: ReadonlySet<string>;
}

type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

const PAGE = 500;
const READ_AT_ONCE = 8;
/** A history has up to 50 MB. */
const READ_WITHIN_MS = 120_000;

/** Exports deliveries that have ended, run by run, the newest first, however many there are. */
export async function* exportDeliveries(
  calls: TemporalCalls,
  filter: DeliveryFilter,
  { bodies = false, known }: ExportOptions,
): AsyncGenerator<ExportedDelivery, void, undefined> {
  yield* pMapIterable(
    endedRuns(calls, filter, known),
    async (found) => (await exported(calls, found, bodies)) ?? pMapSkip,
    { concurrency: READ_AT_ONCE, backpressure: READ_AT_ONCE },
  );
}

async function* endedRuns(
  calls: TemporalCalls,
  filter: DeliveryFilter,
  known: ReadonlySet<string> | undefined,
): AsyncGenerator<Found> {
  const query = `${visibilityQuery(filter, Date.now())} AND ExecutionStatus != "Running"`;
  let from: string | undefined;
  do {
    const page = await calls.call(() => visibilityPage(calls.client, query, PAGE, from));
    for (const found of page.found) {
      if (known?.has(found.runId) !== true && isAskedFor(filter, found.attributes)) yield found;
    }
    from = page.next;
  } while (from !== undefined);
}

async function exported(
  calls: TemporalCalls,
  { workflowId, runId }: Found,
  bodies: boolean,
): Promise<ExportedDelivery | undefined> {
  try {
    const { events } = await calls.call(
      () => calls.client.workflow.getHandle(workflowId, runId).fetchHistory(),
      READ_WITHIN_MS,
    );
    return await new HistoryReader(calls, events ?? []).read(workflowId, runId, bodies);
  } catch (error) {
    // Forgotten by Temporal since it was listed.
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

type Ended = Pick<ExportedDelivery, 'state' | 'reason'>;
type Told = ExportedDelivery['interventions'][number];

/** Reads one run's history. */
class HistoryReader {
  private readonly calls: TemporalCalls;
  private readonly events: readonly HistoryEvent[];
  private readonly byId: ReadonlyMap<string, HistoryEvent>;

  constructor(calls: TemporalCalls, events: readonly HistoryEvent[]) {
    this.calls = calls;
    this.events = events;
    this.byId = new Map(events.map((event) => [String(event.eventId), event]));
  }

  async read(workflowId: string, runId: string, bodies: boolean): Promise<ExportedDelivery | undefined> {
    const [first] = this.events;
    const last = this.events.at(-1);
    if (first === undefined || last === undefined) return undefined;
    const ended = await this.ending(last);
    const started = first.workflowExecutionStartedEventAttributes;
    const [input] = await this.decoded(started?.input?.payloads);
    const memo = started?.memo?.fields?.[REDELIVERY_MEMO];
    const [redelivered] = await this.decoded(memo ? [memo] : []);
    const redelivery = asRedelivery(redelivered);
    const results = await this.results();
    const told = await Promise.all(this.events.map(async (event) => await this.told(event)));
    return {
      ...deliveryIds(workflowId),
      runId,
      ...ended,
      ...factsOf(input, bodies),
      acceptedAt: timeOf(first),
      ...(redelivery === undefined ? {} : { firstAcceptedAt: redelivery.createdAt }),
      endedAt: timeOf(last),
      attempts: results.flatMap(({ result, ...times }) =>
        result.type === 'verdict' ? [{ ...times, ...urlOf(result), verdict: result.verdict }] : [],
      ),
      holds: holdsOf(results.map(({ result }) => result)),
      interventions: [
        ...(redelivery === undefined
          ? []
          : [{ at: timeOf(first), what: 'redeliver' as const, ...asCause(redelivery) }]),
        ...told.filter((each) => each !== undefined),
      ],
    };
  }

  private async decoded(payloads: readonly Payload[] | null | undefined): Promise<unknown[]> {
    return await decodePayloads(this.calls.client, payloads);
  }

  private async ending(last: HistoryEvent): Promise<Ended> {
    const failure = last.workflowExecutionFailedEventAttributes?.failure;
    if (failure) {
      const [status] = await this.decoded(failure.applicationFailureInfo?.details?.payloads);
      const isStatus = failure.applicationFailureInfo?.type === 'DeliveryFailed';
      const reason = isStatus ? (status as DeliveryStatus | undefined)?.reason : 'invalid-input';
      return { state: 'failed', ...(reason === undefined ? {} : { reason }) };
    }
    if (last.workflowExecutionCompletedEventAttributes) return { state: 'delivered' };
    if (last.workflowExecutionTimedOutEventAttributes) return { state: 'failed', reason: 'timed-out' };
    const isTerminated = Boolean(last.workflowExecutionTerminatedEventAttributes);
    return { state: 'cancelled', ...(isTerminated ? { reason: 'terminated' } : {}) };
  }

  /** What came of each attempt activity, in the order of their ends. */
  private async results(): Promise<
    (Omit<ExportedAttempt, 'verdict'> & { readonly result: AttemptResult })[]
  > {
    const ends = this.events.flatMap((event) => {
      const end = event.activityTaskCompletedEventAttributes ?? event.activityTaskTimedOutEventAttributes;
      const scheduled = this.byId.get(String(end?.scheduledEventId));
      const name = scheduled?.activityTaskScheduledEventAttributes?.activityType?.name;
      return end && scheduled && name === 'attempt' ? [{ event, end, scheduled }] : [];
    });
    const results = await Promise.all(
      ends.map(async ({ event, end, scheduled }) => await this.endOf(event, scheduled, end.startedEventId)),
    );
    return results.filter((result) => result !== undefined);
  }

  private async endOf(event: HistoryEvent, scheduled: HistoryEvent, startedId: unknown) {
    const started = this.byId.get(String(startedId));
    const tries = started?.activityTaskStartedEventAttributes?.attempt ?? 1;
    const result = await this.resultOf(event, started);
    return (
      result && {
        scheduledAt: timeOf(scheduled),
        ...(started === undefined ? {} : { startedAt: timeOf(started) }),
        endedAt: timeOf(event),
        ...(tries > 1 ? { tries } : {}),
        result,
      }
    );
  }

  /** R7: an attempt that was begun and never heard of again is one, as the delivery counts it. */
  private async resultOf(
    event: HistoryEvent,
    started: HistoryEvent | undefined,
  ): Promise<AttemptResult | undefined> {
    const completed = event.activityTaskCompletedEventAttributes;
    if (completed) {
      const [result] = await this.decoded(completed.result?.payloads);
      return result as AttemptResult | undefined;
    }
    const type = event.activityTaskTimedOutEventAttributes?.failure?.timeoutFailureInfo?.timeoutType;
    if (type !== START_TO_CLOSE || started === undefined) return undefined;
    return { type: 'verdict', verdict: outcomeUnknown(msOf(event) - msOf(started)) };
  }

  /** What an operator asked by this event, if anything. */
  private async told(event: HistoryEvent): Promise<Told | undefined> {
    const at = timeOf(event);
    const terminated = event.workflowExecutionTerminatedEventAttributes;
    if (terminated) {
      return { at, what: 'terminate', ...asCause({ by: terminated.identity, why: terminated.reason }) };
    }
    const signal = event.workflowExecutionSignaledEventAttributes;
    const update = event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest?.input;
    const what = interventions[signal?.signalName ?? update?.name ?? ''];
    if (what === undefined) return undefined;
    const [cause] = await this.decoded((signal?.input ?? update?.args)?.payloads);
    return { at, what, ...asCause(cause) };
  }
}

/** `TimeoutType` on the wire. */
const START_TO_CLOSE = 1;

const interventions: Readonly<Record<string, Intervention['what']>> = {
  tryNow: 'try-now',
  cancelCause: 'cancel',
};

function factsOf(given: unknown, bodies: boolean): Partial<ExportedDelivery> {
  const checked = checkDeliveryInput(given);
  if (!checked.ok) return {};
  const { type, paymentId, body } = checked.input;
  const bytes = Buffer.from(body, 'utf8');
  return {
    type,
    ...(paymentId === undefined ? {} : { paymentId }),
    money: isMoneyDelivery(checked.input),
    bodySha256: createHash('sha256').update(bytes).digest('hex'),
    bodyBytes: bytes.length,
    ...(bodies ? { body } : {}),
  };
}

function urlOf({ url }: { readonly url?: string }): Pick<ExportedAttempt, 'url'> {
  return url === undefined ? {} : { url };
}

/** A hold keeps its beginning when the delivery asks again. */
function holdsOf(results: readonly AttemptResult[]): ExportedDelivery['holds'] {
  const holds = new Map<number, HeldReason>();
  for (const result of results) {
    if (result.type === 'held' && !holds.has(result.since)) holds.set(result.since, result.reason);
  }
  return [...holds].map(([since, reason]) => ({ since: new Date(since).toISOString(), reason }));
}

function msOf({ eventTime }: HistoryEvent): number {
  return Number(eventTime?.seconds ?? 0) * 1_000 + Math.floor((eventTime?.nanos ?? 0) / 1_000_000);
}

function timeOf(event: HistoryEvent): string {
  return new Date(msOf(event)).toISOString();
}
