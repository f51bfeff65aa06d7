import type { Answer } from '../support/receiver.ts';
import type { Random } from './random.ts';

/** What a script knows of a request. */
export interface Asked {
  /** How often this webhook was sent before. */
  readonly before: number;
  /** How far the run is: 0 at its start, 1 when all is handed over, more while the rest settles. */
  readonly progress: number;
  readonly webhookId: string;
  readonly random: Random;
}

/** How each merchant's receiver fails; all but `dead`, `poisoned` and `refusing` mend before the end. */
export const SCRIPTS: Readonly<Record<string, (asked: Asked) => Answer>> = {
  steady: () => 200,
  brisk: () => 200,
  failing: (asked) => (isBadTime(asked, 0.1, 0.3) || isBadTime(asked, 0.5, 0.7) ? 500 : 200),
  limiting: (asked) =>
    isBadTime(asked, 0.2, 0.6) && asked.random.chance(0.3)
      ? { status: 429, headers: { 'retry-after': '1' } }
      : 200,
  hanging: (asked) => (isBadTime(asked, 0.3, 0.5) ? 'timeout' : 200),
  resetting: (asked) => (isBadTime(asked, 0.4, 0.7) && asked.random.chance(0.9) ? 'network' : 200),
  hesitating: ({ before }) => (before === 0 ? 404 : 200),
  redirecting: ({ before }) =>
    before === 0 ? { status: 302, headers: { location: 'http://127.0.0.1:9/elsewhere' } } : 200,
  // Now and then too late for the sender, who must then take it for lost.
  slow: ({ random, progress }) => ({
    status: 200,
    afterMs: random.chance(progress < 1 ? 0.05 : 0) ? 4_000 : random.between(200, 1_500),
  }),
  moving: () => 200,
  poisoned: ({ webhookId }) => (webhookId.endsWith('7') ? 500 : 200),
  refusing: () => 404,
  dead: () => 500,
};

/** The one whose endpoint is removed and set again, elsewhere and with another secret. */
export const MOVING = 'moving';
/** Fails for ever, so its breaker is never closed again. */
export const DEAD = 'dead';
/** Has no endpoint at all. */
export const HOMELESS = 'homeless';

function isBadTime({ progress }: Asked, from: number, to: number): boolean {
  return progress >= from && progress < to;
}
