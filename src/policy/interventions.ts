import type { Cause } from './gate.ts';

/** Something that an operator asked of a delivery, with who and why. */
export interface Intervention extends Cause {
  /** RFC 3339 in UTC. */
  readonly at: string;
  readonly what: 'redeliver' | 'try-now' | 'cancel';
}

/** R81: what a run of a delivery that was started anew knows of the one before; carried in its memo. */
export interface Redelivery extends Cause {
  /** The run that it follows. */
  readonly of: string;
  /** When the webhook was accepted first, RFC 3339: sent as `X-Webhook-Created-At`, so that receivers can still order. */
  readonly createdAt: string;
  /** The bulk command on whose behalf, by its run. */
  readonly bulk?: string;
}

/** Interventions that a delivery remembers. */
const REMEMBERED = 20;

/** The newest last; the oldest are forgotten. */
export function withIntervention(
  known: readonly Intervention[],
  intervention: Intervention,
): readonly Intervention[] {
  return [...known, intervention].slice(-REMEMBERED);
}

/** The last thing that was asked, in words; empty if nothing was. */
export function lastInterventionInWords(interventions: readonly Intervention[] | undefined): string {
  const last = interventions?.at(-1);
  if (last === undefined) return '';
  const who = last.by === undefined ? '' : ` by ${last.by}`;
  const why = last.why === undefined ? '' : ` (${last.why})`;
  return `; ${words[last.what]}${who} at ${last.at}${why}`;
}

const words = {
  redeliver: 'started anew',
  'try-now': 'told to try now',
  cancel: 'cancelled',
} as const satisfies Record<Intervention['what'], string>;
