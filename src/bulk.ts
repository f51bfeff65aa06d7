/** Bulk commands: one command for all deliveries, or breakers, of a filter. Pure: also used inside the workflow. */
import * as v from 'valibot';
import { problemsOf, type Problem } from './contract.ts';
import {
  breakerFilterSchema,
  deliveryFilterSchema,
  OPEN_STATES,
  type BreakerFilter,
  type DeliveryFilter,
} from './filter.ts';
import type { Cause } from './policy/gate.ts';

/** What is done to each target. */
export type BulkOrder =
  /** R81: all that FAILED and that the filter asks for. */
  | { readonly command: 'redeliver'; readonly filter: DeliveryFilter }
  /** R82: all that are open and that the filter asks for. */
  | { readonly command: 'cancel'; readonly filter: DeliveryFilter }
  /** R49: all breakers that are not closed. */
  | { readonly command: 'reset-breakers'; readonly filter: BreakerFilter };

export interface BulkSettings extends Cause {
  /** Targets per second; 25 by default, 50 at most. */
  readonly perSecond?: number;
  /** Only looks what would be done. */
  readonly dryRun?: boolean;
  /** Targets in a page, and pages in a run of the workflow; for tests. */
  readonly pageSize?: number;
  readonly pagesPerRun?: number;
}

/** The input of a bulk command's workflow. What an earlier run of it has done is carried along. */
export type BulkInput = BulkOrder &
  BulkSettings & {
    readonly progress?: BulkProgress;
    /** Where the next page begins. */
    readonly from?: string;
  };

/** Why a target was left alone. */
export type BulkSkip =
  /** A newer run of the delivery exists: it was redelivered already. */
  | 'superseded'
  /** It was started with an input that breaks R71. */
  | 'invalid'
  /** Temporal has forgotten it, or it has ended meanwhile. */
  | 'ended'
  /** It is in another state than the filter asks for. */
  | 'other-state'
  /** The breaker is closed, or opened before the time asked for. */
  | 'closed'
  | 'opened-earlier';

/** How far a bulk command is. */
export interface BulkProgress {
  readonly command: BulkOrder['command'];
  readonly filter: DeliveryFilter | BreakerFilter;
  readonly dryRun: boolean;
  readonly by?: string;
  readonly why?: string;
  /** RFC 3339. What was accepted, or has failed, after this is not a target. */
  readonly startedAt: string;
  readonly endedAt?: string;
  /** What visibility counted at the start: runs that were redelivered already among them. */
  readonly expected: number;
  /** Targets looked at so far. */
  readonly seen: number;
  /** Done, or in a dry run what would be. */
  readonly done: number;
  readonly skipped: Readonly<Partial<Record<BulkSkip, number>>>;
  /** The first few of `done`, by workflow id. */
  readonly examples: readonly string[];
}

/** What came of a page of targets. */
export interface BulkCounts {
  readonly done: number;
  readonly skipped: Readonly<Partial<Record<BulkSkip, number>>>;
  readonly examples: readonly string[];
}

export const noCounts: BulkCounts = { done: 0, skipped: {}, examples: [] };

const EXAMPLES = 10;
const DEFAULT_PER_SECOND = 25;

const settings = {
  perSecond: v.exactOptional(
    v.pipe(
      v.number('must be a number'),
      v.minValue(0.1, 'must be at least 0.1'),
      v.maxValue(50, 'must be at most 50: endpoints and the Temporal server must bear it'),
    ),
  ),
  dryRun: v.exactOptional(v.boolean('must be true or false')),
  by: v.exactOptional(v.pipe(v.string(), v.maxLength(200, 'must be at most 200 characters'))),
  why: v.exactOptional(v.pipe(v.string(), v.maxLength(500, 'must be at most 500 characters'))),
  pageSize: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(500))),
  pagesPerRun: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(500))),
  progress: v.exactOptional(v.custom<BulkProgress>((value) => typeof value === 'object' && value !== null)),
  from: v.exactOptional(v.string()),
};
const inputSchema = v.variant(
  'command',
  [
    v.strictObject({
      command: v.literal('redeliver'),
      filter: deliveryFilterSchema(['failed'], 'must be failed: only what failed is redelivered in bulk'),
      ...settings,
    }),
    v.strictObject({
      command: v.literal('cancel'),
      filter: deliveryFilterSchema([...OPEN_STATES, 'open', 'held']),
      ...settings,
    }),
    v.strictObject({ command: v.literal('reset-breakers'), filter: breakerFilterSchema, ...settings }),
  ],
  'must be redeliver, cancel or reset-breakers',
);

/** Checks the input of a bulk command; every problem names its field and the remedy. */
export function checkBulkInput(
  input: unknown,
): { readonly ok: true; readonly input: BulkInput } | { readonly ok: false; readonly problems: Problem[] } {
  const result = v.safeParse(inputSchema, input, { abortPipeEarly: true });
  return result.success
    ? { ok: true, input: result.output }
    : { ok: false, problems: problemsOf(result.issues) };
}

export function paceOf({ perSecond = DEFAULT_PER_SECOND }: BulkSettings): number {
  return perSecond;
}

/** One target more that was done, or left alone. */
export function counted(counts: BulkCounts, workflowId: string, outcome: 'done' | BulkSkip): BulkCounts {
  if (outcome !== 'done') {
    return { ...counts, skipped: { ...counts.skipped, [outcome]: (counts.skipped[outcome] ?? 0) + 1 } };
  }
  const examples = [...counts.examples, workflowId].slice(0, EXAMPLES);
  return { ...counts, done: counts.done + 1, examples };
}

export function begun({ command, filter, dryRun = false, by, why }: BulkInput, now: number): BulkProgress {
  return {
    command,
    filter,
    dryRun,
    ...(by === undefined ? {} : { by }),
    ...(why === undefined ? {} : { why }),
    startedAt: new Date(now).toISOString(),
    expected: 0,
    seen: 0,
    ...noCounts,
  };
}

/** One page further. */
export function further(progress: BulkProgress, seen: number, page: BulkCounts): BulkProgress {
  const skipped: Partial<Record<BulkSkip, number>> = { ...progress.skipped };
  for (const [why, count] of Object.entries(page.skipped) as [BulkSkip, number][]) {
    skipped[why] = (skipped[why] ?? 0) + count;
  }
  return {
    ...progress,
    expected: Math.max(progress.expected, progress.seen + seen),
    seen: progress.seen + seen,
    done: progress.done + page.done,
    skipped,
    examples: [...progress.examples, ...page.examples].slice(0, EXAMPLES),
  };
}

/** Progress in a sentence, for the Temporal UI and terminals. */
export function progressInWords(progress: BulkProgress): string {
  const { command, dryRun, expected, seen, done, skipped, endedAt } = progress;
  const verb = dryRun ? `would ${infinitives[command]}` : participles[command];
  const reasons = Object.entries(skipped).map(([why, count]) => `${count} ${skips[why as BulkSkip]}`);
  const left = reasons.length === 0 ? '' : `; left alone: ${reasons.join(', ')}`;
  const state = endedAt === undefined ? `looked at ${seen} of about ${expected}` : `looked at ${seen}`;
  return `${verb} ${done}; ${state}${left}`;
}

const infinitives = { redeliver: 'redeliver', cancel: 'cancel', 'reset-breakers': 'reset' } as const;
const participles = { redeliver: 'redelivered', cancel: 'cancelled', 'reset-breakers': 'reset' } as const;
const skips = {
  superseded: 'redelivered already',
  invalid: 'with an input that is not valid',
  ended: 'ended meanwhile',
  'other-state': 'in another state',
  closed: 'closed already',
  'opened-earlier': 'opened before that time',
} as const satisfies Record<BulkSkip, string>;
