import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import { msToTs, tsToMs } from '@temporalio/common/lib/time.js';
import type { temporal } from '@temporalio/proto';
import { Hookladder, type DeliveryHandle } from '../../src/client.ts';
import type { DeliveryInput } from '../../src/contract.ts';
import { decodePayloads } from '../../src/payloads.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';

type HistoryEvent = temporal.api.history.v1.IHistoryEvent;
type TimeSkippingConfig = temporal.api.common.v1.ITimeSkippingConfig;

/**
 * A delivery under time skipping and its merchant's entity disagree about now, so ladders are tested with a
 * breaker that cannot open.
 */
export const NO_BREAKER: PolicyOverrides = { breaker: { leastSamples: 1_000_000 } };

/** The server's own limit of 100 skips is reached by a delivery that is held for five days. */
const MAX_SKIPS = 100_000;
const FORWARD_POLL_MS = 50;

/** How far a delivery skips. */
export interface SkippingOptions {
  /** Its time stands still, and goes on like ours, once it is this old; {@link skipOn} lets it skip again. */
  readonly untilAgeMs?: number;
}

/**
 * Starts a delivery whose time skips over every wait. The product's client starts it, so its history is that
 * of any other; only the request is given a `timeSkippingConfig` on its way.
 */
export async function startSkipping(
  client: Client,
  input: DeliveryInput,
  { untilAgeMs }: SkippingOptions = {},
): Promise<DeliveryHandle> {
  const { policy, ...webhook } = input;
  const hooks = new Hookladder({
    client: withTimeSkipping(client, {
      enabled: true,
      maxSessionSkipCount: MAX_SKIPS,
      ...(untilAgeMs === undefined ? {} : { fastForwardConfig: { id: 'age', duration: msToTs(untilAgeMs) } }),
    }),
    ...(policy === undefined ? {} : { policy }),
  });
  const { delivery, started } = await hooks.deliver(webhook);
  if (!started) throw new Error(`${delivery.workflowId} was there already: give every delivery a new id`);
  return delivery;
}

/** Resolves when a delivery has reached the age up to which it was told to skip. */
export async function untilStandsStill(client: Client, { workflowId }: DeliveryHandle): Promise<void> {
  const handle = client.workflow.getHandle(workflowId);
  for (;;) {
    const { raw } = await handle.describe();
    const info = raw.workflowExtendedInfo?.timeSkippingInfo;
    if (info?.effectiveConfig?.enabled !== true) return;
    await sleep(FORWARD_POLL_MS);
  }
}

/** Lets a delivery skip to its end. */
export async function skipOn(client: Client, { workflowId }: DeliveryHandle): Promise<void> {
  await client.workflowService.updateWorkflowExecutionOptions({
    namespace: client.options.namespace,
    workflowExecution: { workflowId },
    workflowExecutionOptions: { timeSkippingConfig: { enabled: true, maxSessionSkipCount: MAX_SKIPS } },
    updateMask: { paths: ['time_skipping_config'] },
  });
}

/** A pause that a delivery has asked for. */
export interface AskedPause {
  readonly seconds: number;
  /** Unix milliseconds of the delivery's own time. */
  readonly at: number;
}

/** What the history of a delivery tells. */
export interface DeliveryHistory {
  /** Unix milliseconds of the delivery's own time. */
  readonly acceptedAt: number;
  /** R10, R20: the pauses of both ladders, in order. */
  readonly ladderPauses: readonly AskedPause[];
  /** R47: how long it waits, while held, before it asks by itself. */
  readonly holdPauses: readonly AskedPause[];
  readonly bytes: number;
  readonly events: number;
}

/**
 * Reads what a delivery has asked for. Its clock readings drift by the real time that attempts take, so
 * compare the durations.
 */
export async function readHistory(client: Client, { workflowId }: DeliveryHandle): Promise<DeliveryHistory> {
  const handle = client.workflow.getHandle(workflowId);
  const { events } = await handle.fetchHistory();
  const { raw, historyLength } = await handle.describe();
  const timers = (await Promise.all((events ?? []).map((event) => timerOf(client, event)))).filter(
    (timer) => timer !== undefined,
  );
  const summarised = (pattern: RegExp) =>
    timers.filter(({ summary }) => pattern.test(summary)).map(({ seconds, at }) => ({ seconds, at }));
  return {
    acceptedAt: tsToMs(events?.[0]?.eventTime),
    ladderPauses: summarised(/^(fast|slow) ladder: /),
    holdPauses: summarised(/^held: /),
    bytes: Number(raw.workflowExecutionInfo?.historySizeBytes),
    events: historyLength,
  };
}

async function timerOf(
  client: Client,
  event: HistoryEvent,
): Promise<(AskedPause & { readonly summary: string }) | undefined> {
  const started = event.timerStartedEventAttributes;
  if (!started) return undefined;
  const summary = event.userMetadata?.summary;
  const [words] = await decodePayloads(client, summary ? [summary] : []);
  return {
    seconds: tsToMs(started.startToFireTimeout) / 1_000,
    at: tsToMs(event.eventTime),
    summary: typeof words === 'string' ? words : '',
  };
}

/** The same client, whose starts carry a `timeSkippingConfig`: the TypeScript SDK has no option for it yet. */
function withTimeSkipping(client: Client, timeSkippingConfig: TimeSkippingConfig): Client {
  const { namespace, dataConverter } = client.options;
  const { workflowService } = client.connection;
  const skipping = derivedFrom(workflowService, {
    startWorkflowExecution: (request: object) =>
      workflowService.startWorkflowExecution({ ...request, timeSkippingConfig }),
  });
  const connection = derivedFrom(client.connection, { workflowService: skipping });
  return new Client({ connection, namespace, ...(dataConverter === undefined ? {} : { dataConverter }) });
}

function derivedFrom<T extends object>(base: T, own: object): T {
  return Object.create(base, Object.getOwnPropertyDescriptors(own)) as T;
}
