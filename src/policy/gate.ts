/** A secret as it is kept in Temporal: encrypted, opened only by a worker that signs. */
export type SealedSecret = string & { readonly sealed: unique symbol };

/** Where a merchant receives webhooks and how they are signed. */
export interface Endpoint {
  /** An absolute URL. */
  readonly url: string;
  /** The secret that receivers verify with today. */
  readonly secret: SealedSecret;
  /** R63: the secret that will follow it. */
  readonly nextSecret?: SealedSecret;
}

/** What a merchant's entity publishes for the gate. */
export interface GateView {
  /** Grows with each change; a cached view older than the one a release names is read again. */
  readonly version: number;
  /** Grows with each address change; an attempt carries the epoch that its gate saw. */
  readonly epoch: number;
  readonly endpoint?: Endpoint;
  /** R46: deliveries held before are being released, longest held first. */
  readonly draining: boolean;
}

/** Why a delivery may not attempt now. */
export type HeldReason = 'no-endpoint' | 'draining';

/** What a delivery tells the gate about itself. */
export interface GateCall {
  /** Whether it is held already. */
  readonly held: boolean;
  /** Whether the entity has released it. */
  readonly released: boolean;
}

/** What the gate says. */
export type GateAnswer =
  | { readonly pass: true; readonly endpoint: Endpoint; readonly epoch: number }
  | { readonly pass: false; readonly reason: HeldReason };

/**
 * R46, R50: whether a delivery may attempt now.
 * @param view - what the merchant's entity has published; `undefined` while there is no entity, which means no address.
 */
export function askGate(view: GateView | undefined, call: GateCall): GateAnswer {
  if (view?.endpoint === undefined) return { pass: false, reason: 'no-endpoint' };
  if (view.draining && call.held && !call.released) return { pass: false, reason: 'draining' };
  return { pass: true, endpoint: view.endpoint, epoch: view.epoch };
}
