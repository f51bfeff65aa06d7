import type { DeliveryStatus } from '../../src/policy/status.ts';

/** A slow step that ends later than this is slept in when the run ends. */
const SLEEPS_FROM_MS = 60_000;

/** Whether a delivery has ended, or nothing of it happens before somebody or a long time makes it. */
export function isAtRest(status: DeliveryStatus, now: number): boolean {
  switch (status.state) {
    case 'delivered':
    case 'failed':
    case 'cancelled':
    case 'held-paused':
    case 'held-no-endpoint':
      return true;
    case 'waiting-slow':
    case 'waiting-fast':
      return Date.parse(status.nextAttemptAt ?? '') - now > SLEEPS_FROM_MS;
    case 'attempting':
    case 'held-breaker':
    case 'own-fault':
      return false;
  }
}
