/**
 * The public contract of hookladder on Temporal: names, ids and the input of a delivery. A service in any
 * language that has a Temporal SDK starts deliveries by it (docs/any-language.md). Pure: used by the
 * client, the workers and inside workflows.
 */
import * as v from 'valibot';
import { bodyStatus, isMoneyEvent } from './policy/events.ts';
import type { PolicyOverrides } from './policy/policy.ts';

/** Task queue on which deliveries and their attempts run. */
export const DELIVERY_TASK_QUEUE = 'hookladder-deliveries';
/** Task queue of the merchants' entities, kept apart so that a backlog of deliveries never delays them. */
export const MERCHANT_TASK_QUEUE = 'hookladder-merchants';
/** Workflow type of a delivery. */
export const DELIVERY_WORKFLOW = 'delivery';
/** Workflow type of a merchant's entity. */
export const MERCHANT_WORKFLOW = 'merchantBreaker';

/** Workflow type of a bulk command. */
export const BULK_WORKFLOW = 'bulk';

/** Workflow type, and id, of what counts open deliveries for the metrics. */
export const CENSUS_WORKFLOW = 'census';
export const CENSUS_WORKFLOW_ID = 'hookladder-census';

/** Workflow type of a test of an endpoint. */
export const ENDPOINT_TEST_WORKFLOW = 'endpointTest';
/** Event type of the test event. */
export const TEST_EVENT = 'hookladder.test';

/** The merchant that is reserved for notices to operators. */
export const OPERATOR_MERCHANT = 'hookladder-operator';

/** The memo field in which a merchant's entity publishes what the gate needs. */
export const GATE_MEMO = 'gate';
/** The memo field of a delivery that was started anew (R81). */
export const REDELIVERY_MEMO = 'redelivery';

/** Search attributes, by name, with the type that they are registered with. Values are never encrypted. */
export const SEARCH_ATTRIBUTES = {
  WebhookMerchant: 'Keyword',
  WebhookEvent: 'Keyword',
  WebhookPayment: 'Keyword',
  WebhookMoney: 'Bool',
  WebhookState: 'Keyword',
  WebhookBreaker: 'Keyword',
} as const;

/** R71: the largest body, in bytes of UTF-8. */
export const MAX_BODY_BYTES = 256 * 1024;

/** Workflow id of a delivery. */
export function deliveryWorkflowId(merchantId: string, webhookId: string): string {
  return `delivery:${merchantId}:${webhookId}`;
}

/** The ids in the workflow id of a delivery; empty where it is none. */
export function deliveryIds(workflowId: string): { readonly merchantId: string; readonly webhookId: string } {
  const [, merchantId = '', webhookId = ''] = workflowId.split(':');
  return { merchantId, webhookId };
}

/** Workflow id of a test of an endpoint. */
export function endpointTestWorkflowId(merchantId: string, webhookId: string): string {
  return `test:${merchantId}:${webhookId}`;
}

/** Workflow id of a merchant's entity. */
export function merchantWorkflowId(merchantId: string): string {
  return `breaker:${merchantId}`;
}

/** One field that was refused: which, why, and what to do. */
export interface Problem {
  readonly field: string;
  readonly message: string;
}

const id = (longest: number) =>
  v.pipe(
    v.string('must be a string'),
    v.regex(
      new RegExp(`^[A-Za-z0-9._-]{1,${longest}}$`),
      `must be 1 to ${longest} characters of A-Z, a-z, 0-9, ".", "_" and "-"`,
    ),
  );

export const merchantIdSchema = id(64);
export const webhookIdSchema = id(128);

export const typeSchema = v.pipe(
  v.string('must be a string'),
  v.regex(/^[a-z0-9._-]{1,128}$/, 'must be 1 to 128 characters of a-z, 0-9, ".", "_" and "-"'),
);

export const paymentIdSchema = v.pipe(
  v.string('must be a string: leave it out if there is none'),
  v.minLength(1, 'must not be empty: leave it out instead'),
  v.maxLength(128, 'must be at most 128 characters'),
  v.check((text) => text.isWellFormed(), 'must be well-formed Unicode (it has a lone surrogate)'),
  // Temporal would run it, and never list it.
  v.check((text) => !text.includes('\0'), 'must not contain NUL (U+0000), which PostgreSQL cannot store'),
);

const bodySchema = v.pipe(
  v.string('must be a string that holds the exact JSON text'),
  v.check((text) => !text.startsWith('\uFEFF'), 'must not start with a byte order mark: remove it'),
  v.check((text) => text.isWellFormed(), 'must be valid UTF-8 (it has a lone surrogate)'),
  v.check(
    // A UTF-16 unit takes at most three bytes of UTF-8: most bodies need no encoding to be measured.
    (text) => text.length * 3 <= MAX_BODY_BYTES || utf8Length(text) <= MAX_BODY_BYTES,
    `must be at most ${MAX_BODY_BYTES} bytes (256 KiB) of UTF-8: send a reference instead of the data`,
  ),
  v.check(isJson, 'must be JSON'),
);

/** `v.strictObject` alone also takes an array, which has none of the fields. */
const jsonObject = <Entries extends v.ObjectEntries>(entries: Entries) =>
  v.pipe(
    v.custom<object>(
      (value) =>
        typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value),
      ({ received }) => (received === 'undefined' ? 'is missing' : 'must be a JSON object'),
    ),
    v.strictObject(entries),
  );

/** Dates beyond the calendar throw, and an exception would block the workflow for good. */
const LONGEST_MS = 366 * 24 * 60 * 60 * 1_000;
const milliseconds = v.pipe(
  v.number('must be a number of milliseconds'),
  v.integer('must be a whole number of milliseconds'),
  v.minValue(1, 'must be at least 1 ms'),
  v.maxValue(LONGEST_MS, `must be at most ${LONGEST_MS} ms (366 days)`),
);
/** Beyond 2^31 ms Node's timers fire at once. */
const attemptMilliseconds = v.pipe(
  milliseconds,
  v.maxValue(600_000, 'must be at most 600000 ms (10 minutes)'),
);
const count = v.pipe(
  v.number('must be a number'),
  v.integer('must be a whole number'),
  v.minValue(1, 'must be at least 1'),
);

const maybe = v.exactOptional;
const perSecond = v.pipe(v.number('must be a number'), v.minValue(0.2, 'must be at least 0.2'));
const share = v.pipe(
  v.number('must be a number'),
  v.minValue(0, 'must be at least 0'),
  v.maxValue(1, 'must be at most 1'),
);
const policySchema = jsonObject({
  attemptTimeoutMs: maybe(attemptMilliseconds),
  attemptOverheadMs: maybe(milliseconds),
  maxAgeMs: maybe(milliseconds),
  fast: maybe(
    jsonObject({
      budget: maybe(count),
      firstPauseMs: maybe(milliseconds),
      retryAfterCapMs: maybe(milliseconds),
    }),
  ),
  slow: maybe(
    jsonObject({
      stepsMs: maybe(v.pipe(v.array(milliseconds, 'must be a list'), v.minLength(1, 'must not be empty'))),
      ceilingMs: maybe(milliseconds),
    }),
  ),
  held: maybe(
    jsonObject({
      firstAskMs: maybe(milliseconds),
      firstAskSpreadMs: maybe(milliseconds),
      askEveryMs: maybe(milliseconds),
      askEverySpreadMs: maybe(milliseconds),
    }),
  ),
  breaker: maybe(
    jsonObject({
      windowMs: maybe(milliseconds),
      windowSamples: maybe(count),
      leastSamples: maybe(count),
      failedShare: maybe(share),
      firstPauseMs: maybe(milliseconds),
      longestPauseMs: maybe(milliseconds),
      permitMs: maybe(milliseconds),
    }),
  ),
  room: maybe(jsonObject({ places: maybe(count), bytes: maybe(count) })),
  drain: maybe(jsonObject({ slowDownMs: maybe(milliseconds), perSecond: maybe(perSecond) })),
});

const deliveryInputSchema = jsonObject({
  merchantId: merchantIdSchema,
  webhookId: webhookIdSchema,
  type: typeSchema,
  body: bodySchema,
  paymentId: maybe(paymentIdSchema),
  policy: maybe(policySchema),
});

/** The input of a delivery workflow: plain JSON, one argument. */
export interface DeliveryInput {
  /** R71: 1 to 64 of `A-Za-z0-9._-`. */
  readonly merchantId: string;
  /** R71: 1 to 128 of `A-Za-z0-9._-`; sent as `X-Webhook-Id`. */
  readonly webhookId: string;
  /** R71: event type, 1 to 128 of `a-z0-9._-`. */
  readonly type: string;
  /** R60, R71: the exact JSON text to send, at most 256 KiB of UTF-8. */
  readonly body: string;
  /** The payment it belongs to, at most 128 characters. */
  readonly paymentId?: string;
  /** Numbers that differ from the published policy; for tests and demos. */
  readonly policy?: PolicyOverrides;
}

/** Checks a delivery's input by R71; every problem names its field and the remedy. */
export function checkDeliveryInput(
  input: unknown,
):
  | { readonly ok: true; readonly input: DeliveryInput }
  | { readonly ok: false; readonly problems: Problem[] } {
  const result = v.safeParse(deliveryInputSchema, input, { abortPipeEarly: true });
  return result.success
    ? { ok: true, input: result.output }
    : { ok: false, problems: problemsOf(result.issues) };
}

/** R71: what is wrong with a merchant or webhook id, if anything. */
export function checkId(field: 'merchantId' | 'webhookId', value: unknown): Problem[] {
  const result = v.safeParse(field === 'merchantId' ? merchantIdSchema : webhookIdSchema, value);
  return result.success ? [] : [{ field, message: result.issues[0].message }];
}

/** The problems that a schema found, without the values that had them: a value may be a body or a secret. */
export function problemsOf(issues: readonly v.BaseIssue<unknown>[]): Problem[] {
  return issues.map((issue) => ({ field: v.getDotPath(issue) ?? 'input', message: wordsOf(issue) }));
}

/** R30: whether a checked delivery moved money. */
export function isMoneyDelivery(input: Pick<DeliveryInput, 'type' | 'body'>): boolean {
  return isMoneyEvent(input.type, bodyStatus(JSON.parse(input.body)));
}

function wordsOf(issue: v.BaseIssue<unknown>): string {
  if (issue.type !== 'strict_object') return issue.message;
  if (issue.expected === 'never') return 'is not known: remove it or correct its name';
  return issue.received === 'undefined' ? 'is missing' : 'must be a JSON object';
}

function utf8Length(text: string): number {
  return new TextEncoder().encode(text).length;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
