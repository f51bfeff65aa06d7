/** Which deliveries are meant: the filter of lists and of bulk commands, as a query on visibility. */
import * as v from 'valibot';
import {
  DELIVERY_WORKFLOW,
  deliveryWorkflowId,
  MERCHANT_WORKFLOW,
  merchantIdSchema,
  paymentIdSchema,
  problemsOf,
  typeSchema,
  webhookIdSchema,
} from './contract.ts';
import { InvalidFilter } from './errors.ts';
import type { DeliveryState } from './policy/status.ts';
import type { Found } from './visibility.ts';

export const OPEN_STATES = [
  'attempting',
  'waiting-fast',
  'waiting-slow',
  'held-breaker',
  'held-no-endpoint',
  'held-paused',
  'own-fault',
] as const satisfies DeliveryState[];
export const END_STATES = ['delivered', 'failed', 'cancelled'] as const satisfies DeliveryState[];
const heldStates = ['held-breaker', 'held-no-endpoint', 'held-paused'] as const satisfies DeliveryState[];

/** The states of R90, and `open` and `held` for all that are. */
export const FILTER_STATES = [...OPEN_STATES, ...END_STATES, 'open', 'held'] as const;
export type FilterState = (typeof FILTER_STATES)[number];

/** What is left out is not asked for. Times are RFC 3339, or how long ago: `90s`, `30m`, `24h`, `7d`. */
export interface DeliveryFilter {
  readonly merchantId?: string;
  readonly state?: FilterState;
  /** Event type. */
  readonly type?: string;
  readonly paymentId?: string;
  /** One webhook, with all its runs; needs `merchantId`. */
  readonly webhookId?: string;
  /** Accepted at or after. */
  readonly since?: string;
  /** Accepted before. */
  readonly until?: string;
  /** Ended at or after. */
  readonly endedSince?: string;
  /** Ended before. */
  readonly endedUntil?: string;
}

const units = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const AGO = /^(\d{1,6})([smhd])$/;
const TIME_HELP = 'must be RFC 3339 such as 2026-01-31T12:00:00Z, or how long ago, such as 90s, 30m, 24h, 7d';

const time = v.pipe(
  v.string(TIME_HELP),
  v.check((text) => AGO.test(text) || v.is(v.pipe(v.string(), v.isoTimestamp()), text), TIME_HELP),
);
/** @param states - the states that may be asked for; all by default. */
export const deliveryFilterSchema = (
  states: readonly FilterState[] = FILTER_STATES,
  remedy = `must be one of ${states.join(', ')}`,
) =>
  v.pipe(
    v.strictObject({
      merchantId: v.exactOptional(merchantIdSchema),
      state: v.exactOptional(v.picklist(states, remedy)),
      type: v.exactOptional(typeSchema),
      paymentId: v.exactOptional(paymentIdSchema),
      webhookId: v.exactOptional(webhookIdSchema),
      since: v.exactOptional(time),
      until: v.exactOptional(time),
      endedSince: v.exactOptional(time),
      endedUntil: v.exactOptional(time),
    }),
    v.forward(
      v.check(
        ({ merchantId, webhookId }) => webhookId === undefined || merchantId !== undefined,
        'needs merchantId: ids of webhooks are those of one merchant',
      ),
      ['webhookId'],
    ),
  );

/** Which breakers that are not closed are meant. */
export interface BreakerFilter {
  readonly merchantId?: string;
  /** Opened at or after: RFC 3339, or how long ago. */
  readonly openedSince?: string;
}

export const breakerFilterSchema = v.strictObject({
  merchantId: v.exactOptional(merchantIdSchema),
  openedSince: v.exactOptional(time),
});

/** @throws {@link InvalidFilter} that names each field and the remedy. */
export function checkFilter(filter: unknown): DeliveryFilter {
  const result = v.safeParse(deliveryFilterSchema(), filter, { abortPipeEarly: true });
  if (!result.success) throw new InvalidFilter(problemsOf(result.issues));
  return result.output;
}

/**
 * A filter of deliveries that have ended.
 * @throws {@link InvalidFilter} that names each field and the remedy.
 */
export function checkExportFilter(filter: unknown): DeliveryFilter {
  const result = v.safeParse(deliveryFilterSchema(END_STATES), filter, { abortPipeEarly: true });
  if (!result.success) throw new InvalidFilter(problemsOf(result.issues));
  return result.output;
}

/** A time of a filter, Unix milliseconds. */
export function timeOf(text: string, now: number): number {
  const [, count, unit] = AGO.exec(text) ?? [];
  if (count === undefined || unit === undefined) return Date.parse(text);
  return now - Number(count) * units[unit as keyof typeof units];
}

/** Whether a delivery that is in this state is asked for. */
export function hasState({ state }: DeliveryFilter, actual: DeliveryState): boolean {
  if (state === undefined || state === actual) return true;
  const group: readonly DeliveryState[] = state === 'open' ? OPEN_STATES : state === 'held' ? heldStates : [];
  return group.includes(actual);
}

/** Whether a run that visibility lists for {@link visibilityQuery} is asked for, as far as visibility can tell. */
export function isAskedFor({ paymentId }: DeliveryFilter, attributes: Found['attributes']): boolean {
  return paymentId === undefined || attributes['WebhookPayment'] === paymentId;
}

/**
 * The filter as a query on visibility. Its answer holds every delivery that is asked for and may hold others: what is
 * published of a state leaves out waits of under a minute, a run that was started anew since stays listed, and see
 * {@link isAskedFor}.
 * @param now - what relative times count from, Unix milliseconds.
 */
export function visibilityQuery(filter: DeliveryFilter, now: number): string {
  const { merchantId, type, paymentId, webhookId, since, until, endedSince, endedUntil } = filter;
  const at = (text: string) => quoted(new Date(timeOf(text, now)).toISOString());
  return [
    `WorkflowType = ${quoted(DELIVERY_WORKFLOW)}`,
    ...(merchantId === undefined ? [] : [`WebhookMerchant = ${quoted(merchantId)}`]),
    ...(merchantId === undefined || webhookId === undefined
      ? []
      : [`WorkflowId = ${quoted(deliveryWorkflowId(merchantId, webhookId))}`]),
    ...(type === undefined ? [] : [`WebhookEvent = ${quoted(type)}`]),
    ...(paymentId === undefined ? [] : [paymentCondition(paymentId)]),
    ...stateConditions(filter.state),
    ...(since === undefined ? [] : [`StartTime >= ${at(since)}`]),
    ...(until === undefined ? [] : [`StartTime < ${at(until)}`]),
    ...(endedSince === undefined ? [] : [`CloseTime >= ${at(endedSince)}`]),
    ...(endedUntil === undefined ? [] : [`CloseTime < ${at(endedUntil)}`]),
  ].join(' AND ');
}

/** The breakers that may be open, as a query on visibility; a paused merchant's breaker may be. */
export function breakerQuery({ merchantId }: BreakerFilter): string {
  return [
    `WorkflowType = ${quoted(MERCHANT_WORKFLOW)}`,
    'ExecutionStatus = "Running"',
    'WebhookBreaker IN ("open", "half-open", "paused")',
    ...(merchantId === undefined ? [] : [`WebhookMerchant = ${quoted(merchantId)}`]),
  ].join(' AND ');
}

function stateConditions(state: FilterState | undefined): string[] {
  const running = 'ExecutionStatus = "Running"';
  switch (state) {
    case undefined:
      return [];
    case 'delivered':
      return ['ExecutionStatus = "Completed"'];
    case 'failed':
      return ['ExecutionStatus IN ("Failed", "TimedOut")'];
    case 'cancelled':
      return ['ExecutionStatus IN ("Canceled", "Terminated")'];
    case 'open':
    case 'attempting':
    case 'waiting-fast':
    case 'own-fault':
      return [running];
    case 'held':
      return [running, published(heldStates)];
    case 'waiting-slow':
    case 'held-breaker':
    case 'held-no-endpoint':
    case 'held-paused':
      return [running, published([state])];
  }
}

/** One whose wait has only begun has published nothing yet. */
function published(states: readonly DeliveryState[]): string {
  return `(WebhookState IN (${states.map(quoted).join(', ')}) OR WebhookState IS NULL)`;
}

/** On SQL stores the server compares nothing that it would have to escape: then by what comes before. */
function paymentCondition(paymentId: string): string {
  const [plain = ''] = /^[^"\\\p{Cc}]*/u.exec(paymentId) ?? [];
  if (plain === paymentId) return `WebhookPayment = ${quoted(plain)}`;
  return plain === '' ? 'WebhookPayment IS NOT NULL' : `WebhookPayment STARTS_WITH ${quoted(plain)}`;
}

function quoted(text: string): string {
  return `"${text}"`;
}
