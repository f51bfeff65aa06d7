/** Wakes a held delivery. */
export interface Release {
  /** The gate call that was refused; a release of another one does nothing. */
  readonly call: number;
  /** The version of the gate that the delivery must see. */
  readonly version: number;
  /** R48: leave to make the trial. */
  readonly permit?: number;
}

/**
 * A delivery's calls at the gate, by number. A hold and the release that answers it carry the number of the
 * call: a release that overtakes its hold is kept until the delivery waits, one that comes late is dropped.
 */
export interface GateCalls {
  /** Number of the latest call. */
  readonly call: number;
  /** The release of the latest call, if it has come. */
  readonly released?: Release;
}

export const noCalls: GateCalls = { call: 0 };

/** The delivery calls at the gate: releases of earlier calls are void. */
export function nextCall({ call }: GateCalls): GateCalls {
  return { call: call + 1 };
}

/** A release has come. */
export function takeRelease(calls: GateCalls, release: Release): GateCalls {
  return release.call === calls.call ? { call: calls.call, released: release } : calls;
}
