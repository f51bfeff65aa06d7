import type { DeliveryStatus, ListedDelivery, TryNowOutcome } from '../client.ts';
import { defaultPolicy } from '../policy/policy.ts';
import { statusInWords } from '../policy/status.ts';
import { verdictInWords } from '../policy/verdicts.ts';
import { EXIT } from './exit-codes.ts';
import { columns, facts, paint, stateColoured } from './output.ts';

/** A delivery's whole status. */
export function statusTable(status: DeliveryStatus, workflowId: string): string {
  const { lastVerdict, interventions = [] } = status;
  const excerpt = lastVerdict !== undefined && 'excerpt' in lastVerdict ? lastVerdict.excerpt : undefined;
  return [
    `${paint('bold', status.webhookId)} for ${paint('bold', status.merchantId)}: ${stateColoured(status.state)}`,
    statusInWords(status, defaultPolicy),
    '',
    facts({
      'event type': status.type,
      payment: status.paymentId,
      money: status.money ? 'yes' : 'no',
      accepted: status.acceptedAt,
      'accepted first': status.firstAcceptedAt,
      attempts: status.attempts,
      'fast failures': `${status.fastFailures} of ${defaultPolicy.fast.budget}`,
      'slow steps': `${status.slowSteps} of ${defaultPolicy.slow.stepsMs.length}`,
      'next attempt': status.nextAttemptAt,
      'held since': status.heldSince,
      'ends at the latest': status.endsAt,
      ended: status.endedAt,
      'last answer': lastVerdict && `${verdictInWords(lastVerdict)} after ${lastVerdict.durationMs} ms`,
      'it said': excerpt,
      reason: status.reason,
      'earlier runs':
        status.firstAcceptedAt &&
        `hookladder export --merchant ${status.merchantId} --webhook ${status.webhookId}`,
      workflow: workflowId,
    }),
    ...interventions.map(
      ({ at, what, by = 'somebody', why }) => `${at}  ${what} by ${by}${why === undefined ? '' : `: ${why}`}`,
    ),
  ].join('\n');
}

/** Deliveries, a line each. */
export function listTable(listed: readonly ListedDelivery[]): string {
  return columns(
    ['MERCHANT', 'WEBHOOK', 'EVENT', 'STATE', 'TRIES', 'ACCEPTED', 'NOW'],
    listed.map(({ merchantId, webhookId, state, status }) => [
      merchantId,
      webhookId,
      status?.type ?? '',
      stateColoured(state),
      status?.attempts ?? '',
      status === undefined ? '' : seconds(status.acceptedAt),
      status === undefined ? 'as last published: no worker answers' : nowInWords(status),
    ]),
  );
}

/** How many of a list a merchant has. */
export interface MerchantCount {
  readonly merchantId: string;
  readonly count: number;
  /** That ended so too, and were started anew since. */
  readonly startedAnewSince: number;
}

/** The most first. */
export function countsByMerchant(
  listed: readonly ListedDelivery[],
  anew: readonly ListedDelivery[],
): MerchantCount[] {
  const counts = new Map<string, MerchantCount>();
  const add = (merchantId: string, count: number, startedAnewSince: number): void => {
    const before = counts.get(merchantId) ?? { count: 0, startedAnewSince: 0 };
    counts.set(merchantId, {
      merchantId,
      count: before.count + count,
      startedAnewSince: before.startedAnewSince + startedAnewSince,
    });
  };
  for (const { merchantId } of listed) add(merchantId, 1, 0);
  for (const { merchantId } of anew) add(merchantId, 0, 1);
  return [...counts.values()].toSorted((one, other) => other.count - one.count);
}

export function countsTable(counts: readonly MerchantCount[], state = 'deliveries'): string {
  return columns(
    ['MERCHANT', state.toUpperCase(), 'STARTED ANEW SINCE'],
    counts.map(({ merchantId, count, startedAnewSince }) => [merchantId, count, startedAnewSince]),
  );
}

/** What it waits for, or how it ended, in a few words. */
function nowInWords(status: DeliveryStatus): string {
  const { state, lastVerdict, nextAttemptAt, heldSince, endedAt, reason } = status;
  const when = nextAttemptAt ?? heldSince ?? endedAt;
  const prefix = nextAttemptAt !== undefined ? 'until' : heldSince !== undefined ? 'since' : 'at';
  const parts = [
    ...(when === undefined || state === 'attempting' ? [] : [`${prefix} ${seconds(when)}`]),
    ...(reason === undefined ? [] : [reason]),
    ...(lastVerdict === undefined ? [] : [verdictInWords(lastVerdict)]),
  ];
  return parts.join('; ');
}

/** @param unixMs - Unix milliseconds. */
export function timeOf(unixMs: number | undefined): string | undefined {
  return unixMs === undefined ? undefined : seconds(new Date(unixMs).toISOString());
}

function seconds(rfc3339: string): string {
  return rfc3339.replace(/\.\d+Z$/, 'Z');
}

/** What came of a try now, and the exit code that says so. */
export function tryNowInWords(tryNow: TryNowOutcome | { readonly outcome: 'ended' }): [number, string] {
  switch (tryNow.outcome) {
    case 'delivered':
      return [EXIT.done, `delivered: ${verdictInWords(tryNow.verdict)}`];
    case 'pause-goes-on':
      return [
        EXIT.notDone,
        `tried now, without success: ${verdictInWords(tryNow.verdict)}; the pause goes on until ${tryNow.nextAttemptAt}`,
      ];
    case 'failed': {
      const answer = tryNow.verdict === undefined ? '' : `: ${verdictInWords(tryNow.verdict)}`;
      return [EXIT.notDone, `FAILED by this try (${tryNow.reason})${answer}`];
    }
    case 'held':
      return [
        EXIT.notDone,
        `held (${tryNow.reason}): a try now never passes the gate; it is woken when it may go`,
      ];
    case 'already-attempting':
      return [EXIT.done, 'an attempt is under way already'];
    case 'cancelled':
      return [EXIT.notDone, 'it was cancelled meanwhile'];
    case 'ended':
      return [EXIT.notDone, 'it has ended already: redeliver it instead'];
  }
}
