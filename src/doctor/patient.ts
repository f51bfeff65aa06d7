import type { SecureContext } from 'node:tls';
import type { AddressGuard } from '../http/address-guard.ts';
import type { Connector } from '../http/connector.ts';
import type { Resolver } from '../http/resolver.ts';
import { verdictInWords, type ResponseVerdict, type Verdict } from '../policy/verdicts.ts';
import type { Finding } from './report.ts';
import type { TestEvent, TestRequests } from './requests.ts';

/** What the kit's answer to the probe `echo` says, as far as it is used. */
export interface Echo {
  readonly receiver: string;
  readonly families?: readonly string[];
  readonly skewSeconds?: number;
}

/** What is known before the checks begin: how the endpoint takes a genuine event, and how a forged one. */
export interface FirstAnswers {
  readonly genuine: Verdict;
  /** Signed with a secret that nobody knows; absent where the genuine one was not answered. */
  readonly forged?: Verdict;
  /** Present if the receiver is the kit. */
  readonly echo?: Echo;
}

/** What a check needs to make sense; each one needs what stands before it. */
export const NEEDS = ['nothing', 'answer', 'acceptance', 'verification'] as const;
export type Need = (typeof NEEDS)[number];

const REFUSALS: ReadonlySet<number> = new Set([401, 403]);
/** Statuses of servers that have nothing at a path. */
const NO_SUCH_PATH: ReadonlySet<number> = new Set([404, 405, 410, 501]);

/** The endpoint under examination, with the ways to look at it. */
export class Patient {
  readonly url: URL;
  readonly requests: TestRequests;
  readonly first: FirstAnswers;
  readonly connector: Connector;
  readonly resolver: Resolver;
  readonly guard: AddressGuard;
  readonly trust: SecureContext;

  constructor({
    requests,
    first,
    connector,
    resolver,
    guard,
    trust,
  }: Pick<Patient, 'requests' | 'first' | 'connector' | 'resolver' | 'guard' | 'trust'>) {
    this.url = new URL(requests.endpoint.url);
    this.requests = requests;
    this.first = first;
    this.connector = connector;
    this.resolver = resolver;
    this.guard = guard;
    this.trust = trust;
  }

  async send(event: TestEvent): Promise<Verdict> {
    return await this.requests.send(event);
  }

  /** The genuine event was told from a forged one, and is refused for another reason than its signature. */
  get refusesTheType(): boolean {
    const { genuine, forged } = this.first;
    if (genuine.kind === 'delivered' || !('status' in genuine) || forged === undefined) return false;
    if (!['rejected', 'server-error'].includes(genuine.kind) || REFUSALS.has(genuine.status)) return false;
    return forged.kind === 'rejected' && forged.status !== genuine.status;
  }

  /** There is a server, and nothing at the path: every request gets the same 404. */
  get isNowhere(): boolean {
    const { genuine, forged } = this.first;
    const status = statusOf(genuine);
    return status !== undefined && NO_SUCH_PATH.has(status) && status === statusOf(forged);
  }

  /** Whether an answer means that the event was taken for genuine. */
  accepts(verdict: Verdict): boolean {
    if (verdict.kind === 'delivered') return true;
    return this.refusesTheType && statusOf(verdict) === statusOf(this.first.genuine);
  }

  /** Whether an answer is the one that forged events get. */
  takesForForged(verdict: Verdict): boolean {
    const status = statusOf(verdict);
    return (
      !this.accepts(verdict) &&
      status !== undefined &&
      (REFUSALS.has(status) || status === statusOf(this.first.forged))
    );
  }

  /** Why something that a check needs is not there; `undefined` if it is. */
  lacks(need: Need): string | undefined {
    const { genuine, forged } = this.first;
    const level = NEEDS.indexOf(need);
    if (level >= NEEDS.indexOf('answer')) {
      if (!('status' in genuine)) return `there is no answer (${genuine.code})`;
      if (genuine.kind === 'redirected') return 'the endpoint redirects: see redirect';
      if (this.isNowhere) return 'there is nothing at the path: see reachable';
    }
    if (level >= NEEDS.indexOf('acceptance') && !this.accepts(genuine)) {
      return 'no genuine event is accepted: see signature-right';
    }
    if (level >= NEEDS.indexOf('verification') && (forged === undefined || this.accepts(forged))) {
      return 'signatures are not verified: see signature-wrong';
    }
    return undefined;
  }
}

export function statusOf(verdict: Verdict | undefined): number | undefined {
  return verdict !== undefined && 'status' in verdict ? verdict.status : undefined;
}

/** An answer in a line. */
export function answerInWords(verdict: Verdict): string {
  const excerpt = 'excerpt' in verdict ? (verdict.excerpt ?? '').replaceAll(/\s+/g, ' ').trim() : '';
  const shown = excerpt.length > 90 ? `${excerpt.slice(0, 90)}…` : excerpt;
  return `${verdictInWords(verdict)}${shown === '' ? '' : `: ${shown}`}`;
}

/** Judges an answer; without one there is nothing to judge. */
export function judged(
  sent: string,
  verdict: Verdict,
  judge: (answer: ResponseVerdict) => Omit<Finding, 'sent'>,
): Finding {
  if ('status' in verdict) return { sent, ...judge(verdict) };
  return { sent, verdict: 'not-checked', seen: `no answer: ${answerInWords(verdict)}` };
}
