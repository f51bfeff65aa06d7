import type { Client } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';
import type { Hookladder } from '../../src/client.ts';
import { deliveryWorkflowId, merchantWorkflowId } from '../../src/contract.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import type { CountingProxy, RequestCounts } from '../counting-proxy.ts';
import { until } from '../pace.ts';
import { SECRET } from '../stand.ts';

type HistoryEvent = temporal.api.history.v1.IHistoryEvent;

/** What becomes of a delivery. */
export interface Fate {
  readonly name: string;
  /** How the endpoint answers, request by request. */
  readonly answers: readonly number[];
  /** Whether it comes before the merchant has an address. */
  readonly held?: true;
  readonly money?: true;
  readonly policy?: PolicyOverrides;
  /** Reports that the merchant's entity gets by its end or within a second after; the rest come within a minute. */
  readonly reports: number;
}

/** Each kind of way that a delivery may take, at its shortest. */
export const FATES = [
  { name: 'delivered at once', answers: [200], reports: 0 },
  { name: 'one fast failure, then delivered', answers: [500, 200], reports: 2 },
  {
    name: 'rejected money event, one slow step, then delivered',
    answers: [404, 200],
    money: true,
    // Longer than the gate is cached, as any real step is.
    policy: { slow: { stepsMs: [1_500] } },
    reports: 0,
  },
  { name: 'failed at once', answers: [404], reports: 0 },
  { name: 'held without an address, then released', answers: [200], held: true, reports: 1 },
] as const satisfies readonly Fate[];

/** What a delivery has cost by its end. */
export interface Cost {
  readonly events: number;
  /** Of its history, without the names of the processes. */
  readonly bytes: number;
  /** Requests to Temporal of the client and the worker for it, by operation, without long polls. */
  readonly requests: RequestCounts;
}

/** Where fates are lived through: everything that is to be counted goes through the proxy. */
export interface FatePlace {
  readonly proxy: CountingProxy;
  readonly counted: (policy?: PolicyOverrides) => Hookladder;
  /** Not through the proxy. */
  readonly hooks: Hookladder;
  readonly temporal: Client;
  /** Where a merchant receives, and how its endpoint answers from now on. */
  readonly endpoint: (merchantId: string, answers: readonly number[]) => Promise<string>;
}

/** Lets a webhook of a new merchant have its fate, alone. */
export async function costOf(place: FatePlace, fate: Fate, merchantId: string): Promise<Cost> {
  const { proxy, temporal, hooks } = place;
  const url = await place.endpoint(merchantId, fate.answers);
  const setEndpoint = async () => {
    await hooks.merchant(merchantId).setEndpoint({ url, secret: SECRET });
  };
  if (fate.held !== true) {
    await setEndpoint();
    await untilIdle(temporal, merchantId, 0);
  }
  proxy.reset();
  await place.counted(fate.policy).deliver({
    merchantId,
    webhookId: 'webhook',
    type: 'payment.status_changed',
    body: JSON.stringify({ status: fate.money === true ? 'paid' : 'pending' }),
  });
  if (fate.held === true) {
    await untilIdle(temporal, merchantId, 1);
    await untilWaiting(temporal, deliveryWorkflowId(merchantId, 'webhook'));
    await setEndpoint();
  }
  await hooks.delivery(merchantId, 'webhook').result();
  await untilIdle(temporal, merchantId, fate.reports);
  const requests = requestsOf(proxy);
  return { ...(await historyCost(temporal, deliveryWorkflowId(merchantId, 'webhook'))), requests };
}

/** Events and bytes of a workflow. */
export async function historyCost(client: Client, workflowId: string): Promise<Omit<Cost, 'requests'>> {
  const handle = client.workflow.getHandle(workflowId);
  const events = await eventsOf(client, workflowId);
  const { raw, historyLength } = await handle.describe();
  const bytes = Number(raw.workflowExecutionInfo?.historySizeBytes) - bytesOfNames(events);
  return { events: historyLength, bytes };
}

/** The requests since the proxy was reset, without those that a process makes for itself. */
export function requestsOf(proxy: CountingProxy): RequestCounts {
  const forDeliveries = Object.entries(proxy.counts()).filter(([name]) => !OF_PROCESSES.test(name));
  return Object.fromEntries(forDeliveries);
}

const OF_PROCESSES =
  /^(Poll.*Queue|GetSystemInfo|DescribeNamespace|ListSearchAttributes|RecordWorkerHeartbeat|ShutdownWorker)$/;

/** How many reports a merchant's entity has got. */
export async function reportsTo(client: Client, merchantId: string): Promise<number> {
  return (await eventsOf(client, merchantWorkflowId(merchantId))).filter(isReport).length;
}

/** Resolves when a merchant's entity has got so many reports and has nothing to do. */
async function untilIdle(client: Client, merchantId: string, reports: number): Promise<void> {
  await until(`the entity has ${reports} reports and is idle`, async () => {
    const { workflow } = client;
    const found = await workflow
      .getHandle(merchantWorkflowId(merchantId))
      .describe()
      .catch(() => undefined);
    if (found === undefined || found.raw.pendingWorkflowTask || found.raw.pendingActivities?.length)
      return false;
    return (await reportsTo(client, merchantId)) >= reports;
  });
}

/** Resolves when a delivery's latest event is a timer: whatever comes next gets a workflow task of its own. */
async function untilWaiting(client: Client, workflowId: string): Promise<void> {
  await until(`${workflowId} waits`, async () =>
    Boolean((await eventsOf(client, workflowId)).at(-1)?.timerStartedEventAttributes),
  );
}

async function eventsOf({ workflow }: Client, workflowId: string): Promise<readonly HistoryEvent[]> {
  return (await workflow.getHandle(workflowId).fetchHistory()).events ?? [];
}

function isReport({ workflowExecutionSignaledEventAttributes: signal }: HistoryEvent): boolean {
  return signal?.signalName === 'report';
}

/** A process signs with its id and the name of its host, which differ in length from machine to machine. */
function bytesOfNames(events: readonly HistoryEvent[]): number {
  const names = [...JSON.stringify(events).matchAll(/"identity":"([^"]*)"/g)];
  return names.reduce((sum, [, name = '']) => sum + name.length, 0);
}
