import type { Endpoint, NextSecret } from './gate.ts';

/** R63: an old secret is kept at most this long. */
export const LONGEST_ROTATION_MS = 366 * 24 * 60 * 60 * 1_000;

/** R63: from now on two secrets sign. Another rotation replaces the new secret; the old one stays. */
export function rotate(endpoint: Endpoint, next: NextSecret): Endpoint {
  return { ...endpoint, next };
}

/** R63: the new secret takes the old one's place, and the old one is dropped. */
export function promote(endpoint: Endpoint): Endpoint {
  const { next, ...rest } = endpoint;
  return next === undefined ? endpoint : { ...rest, secret: next.secret };
}

/** R63: when the new secret takes the old one's place by itself, Unix milliseconds; never without one. */
export function promotionDueAt(endpoint: Endpoint | undefined): number {
  return endpoint?.next?.promoteAt ?? Number.POSITIVE_INFINITY;
}
