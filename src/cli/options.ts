/** Options that several commands share. */
import { InvalidArgumentError, Option } from '@commander-js/extra-typings';
import { FILTER_STATES } from '../filter.ts';

export const stateOption = new Option(
  '--state <state>',
  'in this state; `open` and `held` stand for all that are',
).choices(FILTER_STATES);

const TIME = 'RFC 3339, or how long ago: 90s, 30m, 24h, 7d';

/** Flags and descriptions of the options that make a filter. */
export const filterFlags = {
  merchant: ['--merchant <id>', 'of this merchant'],
  type: ['--type <type>', 'of this event type'],
  payment: ['--payment <id>', 'of this payment'],
  since: ['--since <time>', `accepted at or after: ${TIME}`],
  until: ['--until <time>', 'accepted before'],
  endedSince: ['--ended-since <time>', 'ended at or after'],
  endedUntil: ['--ended-until <time>', 'ended before'],
} as const;

export const byFlag = [
  '--by <who>',
  'who asks, to be read later; the user of this machine by default',
] as const;
export const whyFlag = ['--why <reason>', 'why, to be read later'] as const;

export function positive(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value <= 0) {
    throw new InvalidArgumentError('It must be a number above 0.');
  }
  return value;
}

export function wholeNumber(text: string): number {
  const value = positive(text);
  if (!Number.isInteger(value)) throw new InvalidArgumentError('It must be a whole number above 0.');
  return value;
}

/** Of an option that may be repeated. */
export function collect(value: string, before: readonly string[]): string[] {
  return [...before, value];
}

/** Milliseconds. */
export function duration(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(text) ?? [];
  if (number === undefined) throw new InvalidArgumentError('It must be a time such as 500ms, 12s or 2m.');
  return Number(number) * { ms: 1, s: 1_000, m: 60_000 }[unit as 'ms' | 's' | 'm'];
}
