/** What became of one check; the later, the worse. */
export const CHECK_VERDICTS = ['ok', 'not-checked', 'advice', 'warning', 'fault'] as const;

export type CheckVerdict = (typeof CHECK_VERDICTS)[number];

/** What a check found. */
export interface Finding {
  readonly verdict: CheckVerdict;
  /** What was sent; never a secret. */
  readonly sent: string;
  /** What was seen, or why it was not checked. */
  readonly seen: string;
  /** What to do about it. */
  readonly remedy?: string;
}

/** A finding, and which check's it is. */
export interface CheckResult extends Finding {
  readonly id: string;
  readonly title: string;
  /** Where it is explained: the page of docs/receivers.md and its section. */
  readonly see: string;
}

/** An examination of an endpoint; the shape of `hookladder doctor --json`. */
export interface DoctorReport {
  readonly format: 'hookladder-doctor.v1';
  readonly url: string;
  /** Begins the ids of all webhooks that were sent. */
  readonly run: string;
  readonly startedAt: string;
  readonly durationMs: number;
  /** POSTs that were sent. */
  readonly requests: number;
  /** Protocol of the receiver kit, if it answered. */
  readonly kit?: string;
  /** The worst of all: `ok` where there is advice at most. */
  readonly verdict: 'ok' | 'warning' | 'fault';
  readonly counts: Readonly<Record<CheckVerdict, number>>;
  readonly checks: readonly CheckResult[];
}

/** How the whole stands, in a sentence. */
export function summaryOf({ verdict, counts }: Pick<DoctorReport, 'verdict' | 'counts'>): string {
  const { fault, warning, advice } = counts;
  const found = [
    fault === 0 ? '' : `${fault} ${fault === 1 ? 'fault' : 'faults'}`,
    warning === 0 ? '' : `${warning} ${warning === 1 ? 'warning' : 'warnings'}`,
    advice === 0 ? '' : `${advice} ${advice === 1 ? 'piece' : 'pieces'} of advice`,
  ].filter((part) => part !== '');
  if (found.length === 0) return 'Nothing is wrong with what could be checked.';
  const list = found.join(', ').replace(/, ([^,]+)$/, ' and $1');
  return verdict === 'ok'
    ? `Nothing is wrong; there ${advice === 1 ? 'is' : 'are'} ${list}.`
    : `There ${(fault || warning) === 1 ? 'is' : 'are'} ${list}.`;
}

/** From the worst to the best, for people. */
export function worstFirst(checks: readonly CheckResult[]): CheckResult[] {
  const rank = ({ verdict }: CheckResult): number => CHECK_VERDICTS.indexOf(verdict);
  return checks.toSorted((a, b) => rank(b) - rank(a));
}
