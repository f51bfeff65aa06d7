import { pMapIterable, pMapSkip } from 'p-map';
import { deliveryIds } from '../contract.ts';
import { DeliveryNotFound, InvalidWebhook, NoWorker } from '../errors.ts';
import { END_STATES, hasState, isAskedFor, visibilityQuery, type DeliveryFilter } from '../filter.ts';
import type { DeliveryState, DeliveryStatus } from '../policy/status.ts';
import { visibilityPage, type Found } from '../visibility.ts';
import { DeliveryHandle } from './delivery-handle.ts';
import type { TemporalCalls } from './temporal-calls.ts';

/** A delivery in a list. */
export interface ListedDelivery {
  readonly merchantId: string;
  readonly webhookId: string;
  /** R90. */
  readonly state: DeliveryState;
  /**
   * Absent if it was started with an input that breaks R71, and if no worker could be asked: then `state` is as
   * last published, which leaves out waits of under a minute.
   */
  readonly status?: DeliveryStatus;
}

/** How much of a list is wanted. */
export interface ListOptions {
  /** At most so many; 100 by default. */
  readonly limit?: number;
  /**
   * With a state in which deliveries end: also those of which an earlier run ended so and that were started anew since,
   * each with its state of now. False by default.
   */
  readonly allRuns?: boolean;
}

const DEFAULT_LIMIT = 100;
const PAGE = 200;
/** Deliveries asked for their state at once. */
const ASK_AT_ONCE = 8;

/** Lists deliveries, the newest first; visibility finds them, each then says itself how it stands. */
export async function* listDeliveries(
  calls: TemporalCalls,
  filter: DeliveryFilter,
  { limit, allRuns = false }: ListOptions,
): AsyncGenerator<ListedDelivery, void, undefined> {
  let left = limit ?? DEFAULT_LIMIT;
  const wasSo = allRuns && END_STATES.some((state) => state === filter.state);
  if (left <= 0) return;
  const ask = asker(calls);
  const asked = pMapIterable(
    candidates(calls, filter),
    async (found) => {
      const listed = await ask(found);
      return listed !== undefined && (wasSo || hasState(filter, listed.state)) ? listed : pMapSkip;
    },
    { concurrency: ASK_AT_ONCE, backpressure: ASK_AT_ONCE },
  );
  for await (const listed of asked) {
    yield listed;
    left -= 1;
    if (left === 0) return;
  }
}

/** Each delivery once, however often it was started anew. */
async function* candidates(calls: TemporalCalls, filter: DeliveryFilter): AsyncGenerator<Found> {
  const query = visibilityQuery(filter, Date.now());
  const seen = new Set<string>();
  let from: string | undefined;
  do {
    const page = await calls.call(() => visibilityPage(calls.client, query, PAGE, from));
    for (const found of page.found) {
      if (!seen.has(found.workflowId) && isAskedFor(filter, found.attributes)) yield found;
      seen.add(found.workflowId);
    }
    from = page.next;
  } while (from !== undefined);
}

/** Once no worker has answered, no other delivery is made to wait for one. */
function asker(calls: TemporalCalls): (found: Found) => Promise<ListedDelivery | undefined> {
  let hasWorker = true;
  return async (found) => {
    const { merchantId, webhookId } = deliveryIds(found.workflowId);
    const published = { merchantId, webhookId, state: publishedState(found) };
    const needsWorker = found.standing === 'open' || found.standing === 'cancelled';
    if (needsWorker && !hasWorker) return published;
    try {
      const status = await new DeliveryHandle(calls, merchantId, webhookId).status();
      return { merchantId, webhookId, state: status.state, status };
    } catch (error) {
      // Forgotten by Temporal since it was listed.
      if (error instanceof DeliveryNotFound) return undefined;
      if (error instanceof InvalidWebhook) return { ...published, state: 'failed' };
      if (!(error instanceof NoWorker)) throw error;
      hasWorker = false;
      return published;
    }
  };
}

function publishedState({ standing, attributes }: Found): DeliveryState {
  if (standing !== 'open') return standing;
  return (attributes['WebhookState'] as DeliveryState | undefined) ?? 'attempting';
}
