/** A secret as it is kept in Temporal: encrypted, opened only by a worker that signs. */
export type SealedSecret = string & { readonly sealed: unique symbol };

/** Where a merchant receives webhooks and how they are signed. */
export interface Endpoint {
  /** An absolute URL. */
  readonly url: string;
  /** The secret that receivers verify with today. */
  readonly secret: SealedSecret;
  /** R63: the secret that will follow it. */
  readonly next?: NextSecret;
  readonly headers?: SealedHeaders;
}

/** R63. */
export interface NextSecret {
  readonly secret: SealedSecret;
  /** When it takes the place of the old one by itself, Unix milliseconds. */
  readonly promoteAt: number;
}

/** R72: headers that are sent with each webhook of one endpoint beside the product's own. */
export interface SealedHeaders {
  readonly names: readonly string[];
  /** In the order of the names; they may be credentials. */
  readonly values: SealedSecret;
}

const LONGEST_SHOWN = 300;

/** Of an address, what is kept as evidence: merchants keep tokens in queries. */
export function shownUrl(url: string): string {
  return url
    .replace(/[?#].*$/s, '')
    .replace(/^(\w+:\/\/)[^/]*@/, '$1')
    .slice(0, LONGEST_SHOWN);
}

/** R50: another address for an endpoint that keeps its secrets. */
export interface AddressChange extends Cause {
  readonly url: string;
  /** Sealed for this address; what was there stays if it is left out, and goes with `none`. */
  readonly headers?: SealedHeaders | 'none';
}

/**
 * What a merchant's entity publishes for the gate, and all that survives the loss of the entity (R52).
 * Times are Unix milliseconds.
 */
export interface GateView {
  /** Grows with each change; a cached view older than the one a release names is read again. */
  readonly version: number;
  /** Grows with each transition, reset and address change; an attempt's sample carries the one its gate saw. */
  readonly epoch: number;
  readonly circuit: CircuitView;
  /** When the breaker opened, Unix milliseconds; absent while it is closed. */
  readonly openedAt?: number;
  readonly endpoint?: Endpoint;
  /** R53: paused by an operator. */
  readonly paused?: Pausing;
  /** R46: deliveries held before are being released, longest held first. */
  readonly draining: boolean;
  /** R46: the drain met a 429 and waits until then. */
  readonly drainPausedUntil?: number;
  /** R41: a failure of the last minute or so before this was published: while it may count, so do successes. */
  readonly lastFailureAt?: number;
}

export type CircuitView =
  | { readonly state: 'closed' }
  | { readonly state: 'open'; readonly until: number; readonly pause: number }
  | { readonly state: 'half-open'; readonly pause: number; readonly permit?: number };

/** Who did something, and why. */
export interface Cause {
  readonly by?: string;
  readonly why?: string;
}

/** R53. */
export interface Pausing extends Cause {
  readonly since: number;
}

/** Why a delivery may not attempt now. */
export type HeldReason = 'paused' | 'no-endpoint' | 'breaker' | 'draining';

/** What a delivery tells the gate about itself. */
export interface GateCall {
  /** Whether it is held already. */
  readonly held: boolean;
  /** Whether the entity has released it. */
  readonly released: boolean;
  /** R48: the permit of a trial. */
  readonly permit?: number;
}

/** What the gate says. */
export type GateAnswer =
  | {
      readonly pass: true;
      readonly endpoint: Endpoint;
      readonly epoch: number;
      /** R44: this attempt is the trial of this permit. */
      readonly trial?: number;
      readonly lastFailureAt?: number;
    }
  | {
      readonly pass: false;
      readonly reason: HeldReason;
      /** When the breaker's pause ends, Unix milliseconds. */
      readonly until?: number;
    };

/**
 * R43–R50, R53: whether a delivery may attempt now; the reason is the first that applies.
 * @param view - what the merchant's entity has published; `undefined` while there is no entity, which means no address.
 */
export function askGate(view: GateView | undefined, call: GateCall): GateAnswer {
  if (view?.paused !== undefined) return { pass: false, reason: 'paused' };
  if (view?.endpoint === undefined) return { pass: false, reason: 'no-endpoint' };
  const { circuit, endpoint, epoch } = view;
  if (circuit.state === 'open') return { pass: false, reason: 'breaker', until: circuit.until };
  if (circuit.state === 'half-open') {
    const current = circuit.permit !== undefined && circuit.permit === call.permit;
    return current
      ? { pass: true, endpoint, epoch, trial: circuit.permit }
      : { pass: false, reason: 'breaker' };
  }
  if (view.drainPausedUntil !== undefined) {
    return { pass: false, reason: 'draining', until: view.drainPausedUntil };
  }
  if (view.draining && call.held && !call.released) return { pass: false, reason: 'draining' };
  const { lastFailureAt } = view;
  return { pass: true, endpoint, epoch, ...(lastFailureAt === undefined ? {} : { lastFailureAt }) };
}
