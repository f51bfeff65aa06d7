/**
 * What came of one attempt (R1–R4, R7). Verdicts are facts about an exchange; what they mean for a
 * delivery is {@link meaningOf}, which needs to know whether the event moved money.
 */
export type Verdict = ResponseVerdict | NoResponseVerdict;

interface AttemptFacts {
  /** From the start of the exchange to its verdict, in milliseconds. */
  readonly durationMs: number;
  readonly timings?: PhaseTimings;
  /** The IP address that was connected to; where no connection came about, the one whose failure is told. */
  readonly address?: string;
}

/** A part of an exchange: name lookup, way to the egress proxy, TCP, TLS, request to response headers. */
export type Phase = 'dns' | 'proxy' | 'connect' | 'tls' | 'firstByte';

/**
 * How long each phase took, in milliseconds. A phase that was not needed or not reached is absent; one that failed
 * counts up to its failure. A `reused` connection was opened by an earlier attempt.
 */
export type PhaseTimings = { readonly [P in Phase as `${P}Ms`]?: number } & { readonly reused?: true };

/** The endpoint answered: status line and headers arrived. */
export interface ResponseVerdict extends AttemptFacts {
  readonly kind: 'delivered' | 'redirected' | 'rejected' | 'rate-limited' | 'server-error';
  readonly status: number;
  /** R12: what `Retry-After` asks for, in milliseconds from the verdict. */
  readonly retryAfterMs?: number;
  /** R4: the target of a redirect, which is never followed. */
  readonly location?: string;
  /** The first bytes of the response, safely decoded. */
  readonly excerpt?: string;
  /** Whether the response went on after the excerpt. */
  readonly excerptCut?: boolean;
}

/** No answer that HTTP knows. */
export interface NoResponseVerdict extends AttemptFacts {
  readonly kind: 'network' | 'timeout' | 'address-blocked' | 'outcome-unknown';
  /** Stable and machine-readable, such as `connect-refused`. */
  readonly code: string;
  /** For an operator, in a sentence. */
  readonly message: string;
  /** For the merchant, to be forwarded as it is; absent where the merchant can do nothing. */
  readonly hint?: string;
}

/** What a verdict means for the delivery it belongs to. */
export type Meaning = 'delivered' | 'fast-failure' | 'rejection';

/** R1–R4: the kind of a response, by its status; `network` where the status is none that HTTP knows. */
export function kindOfStatus(status: number): ResponseVerdict['kind'] | 'network' {
  if (status >= 200 && status < 300) return 'delivered';
  if (status >= 300 && status < 400) return 'redirected';
  if (status === 429) return 'rate-limited';
  if (status >= 400 && status < 500) return 'rejected';
  if (status >= 500 && status < 600) return 'server-error';
  return 'network';
}

/** R1–R4, R7: what a verdict means for a delivery; redirects depend on whether the event moved money. */
export function meaningOf(verdict: Verdict, money: boolean): Meaning {
  switch (verdict.kind) {
    case 'delivered':
      return 'delivered';
    case 'rejected':
    case 'address-blocked':
      return 'rejection';
    case 'redirected':
      return money ? 'rejection' : 'fast-failure';
    case 'rate-limited':
    case 'server-error':
    case 'network':
    case 'timeout':
    case 'outcome-unknown':
      return 'fast-failure';
  }
}

/**
 * R40: whether an attempt is a failed sample of the breaker or one that did not fail; `undefined` if it is none.
 * Only what speaks for a dead endpoint fails: 3xx, 4xx and 429 show a reachable one.
 */
export function hasFailed(verdict: Verdict): boolean | undefined {
  switch (verdict.kind) {
    case 'network':
    case 'timeout':
    case 'server-error':
      return true;
    case 'delivered':
    case 'redirected':
    case 'rejected':
    case 'rate-limited':
      return false;
    case 'address-blocked':
    case 'outcome-unknown':
      return undefined;
  }
}

/** R7: the verdict of an attempt that was begun and never heard of again. */
export function outcomeUnknown(durationMs: number): NoResponseVerdict {
  return {
    kind: 'outcome-unknown',
    code: 'outcome-unknown',
    message: 'the worker was lost during the attempt; the webhook may have arrived',
    durationMs,
  };
}

/** A verdict in a few words, for logs, summaries and operators. */
export function verdictInWords(verdict: Verdict): string {
  if (!('status' in verdict)) {
    return verdict.code === verdict.kind ? verdict.message : `${verdict.code}: ${verdict.message}`;
  }
  const target = verdict.location === undefined ? '' : ` to ${verdict.location} (redirects are not followed)`;
  return `HTTP ${verdict.status}${target}`;
}
