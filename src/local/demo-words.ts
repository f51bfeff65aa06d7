import Table from 'cli-table3';
import { defaultPolicy, policyWith, type Policy } from '../policy/policy.ts';
import { attemptsInWords, type DeliveryStatus } from '../policy/status.ts';
import { verdictInWords } from '../policy/verdicts.ts';
import type { Shown } from './demo-deliveries.ts';
import { demoNumbers } from './demo-fates.ts';

const demoPolicy = policyWith(demoNumbers);

/** The policy that a delivery goes by, as far as the demo knows: its own ones are shortened, others are not. */
export function policyOf({ fate }: Shown): Policy {
  return fate === undefined ? defaultPolicy : demoPolicy;
}

/** What a delivery waits for, in half a line: how long yet, for which step, and the last answer. */
export function waitInWords(status: DeliveryStatus, policy: Policy, now: number): string {
  const last = status.lastVerdict === undefined ? '' : ` (last: ${verdictInWords(status.lastVerdict)})`;
  const wait = duration(Math.max(0, Date.parse(status.nextAttemptAt ?? '') - now));
  const held = `held for ${duration(Math.max(0, now - Date.parse(status.heldSince ?? '')))}`;
  switch (status.state) {
    case 'attempting':
      return `attempt ${status.attempts + 1} under way${last}`;
    case 'waiting-fast':
      return `waits ${wait} for fast attempt ${status.fastFailures + 1} of ${policy.fast.budget}${last}`;
    case 'waiting-slow':
      return `waits ${wait}: slow step ${status.slowSteps} of ${policy.slow.stepsMs.length}${last}`;
    case 'held-no-endpoint':
      return `${held}: the merchant has no address${last}`;
    case 'held-breaker':
      return `${held}: the merchant's breaker is not closed${last}`;
    case 'held-paused':
      return `${held}: the merchant is paused by an operator${last}`;
    case 'own-fault':
      return `our own fault keeps it from attempting: ${status.reason}`;
    case 'delivered':
      return `delivered in attempt ${status.attempts}`;
    case 'failed':
      return `FAILED in attempt ${status.attempts}: ${status.reason}${last}`;
    case 'cancelled':
      return `cancelled after ${attemptsInWords(status.attempts)}${last}`;
  }
}

/** The demo's numbers beside the published ones. */
export function policyInWords(): string {
  const table = new Table({
    head: ['', 'here', 'published rules'],
    style: { head: [], border: [], compact: true },
  });
  const row = (name: string, words: (policy: Policy) => string): void => {
    table.push([name, words(demoPolicy), words(defaultPolicy)]);
  };
  row('attempt limit', ({ attemptTimeoutMs }) => duration(attemptTimeoutMs));
  row('fast attempts', ({ fast }) => String(fast.budget));
  row('fast pauses', ({ fast }) => {
    const longest = fast.firstPauseMs * 2 ** (fast.budget - 2);
    return `${duration(fast.firstPauseMs)}, doubling to ${duration(longest)}`;
  });
  row('slow steps', ({ slow }) => slow.stepsMs.map(duration).join(', '));
  row('slow ceiling', ({ slow }) => duration(slow.ceilingMs));
  row(
    'breaker pauses',
    ({ breaker }) => `${duration(breaker.firstPauseMs)}, doubling to ${duration(breaker.longestPauseMs)}`,
  );
  return table.toString();
}

const UNITS = [
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** "0.25 s", "3 s", "4 min 16 s", "12 h": at most two units. */
export function duration(ms: number): string {
  if (ms < 1_000 && ms > 0) return `${Math.max(0.01, Math.round(ms / 10) / 100)} s`;
  const parts: string[] = [];
  let rest = Math.round(ms / 1_000) * 1_000;
  for (const [unit, size] of UNITS) {
    const whole = Math.floor(rest / size);
    rest -= whole * size;
    if (whole > 0) parts.push(`${whole} ${unit}`);
  }
  return parts.slice(0, 2).join(' ') || '0 s';
}
