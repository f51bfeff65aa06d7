/** Attempts of one merchant that a worker process has under way at once, by default. */
const PLACES = 8;
/** Reservations of one merchant are this far apart, milliseconds, at random between the two. */
const APART_MS = [100, 200] as const;
/** No reservation is nearer or farther than this, milliseconds: far enough for 2,000 of one merchant. */
const NEAREST_MS = 1_000;
const FARTHEST_MS = 300_000;

/**
 * Keeps one slow merchant from filling a worker: so many attempts of it are under way at once, and whoever
 * finds no place gets a reservation on the merchant's own clock instead of trying again and again.
 */
export class Places {
  private readonly capacity: number;
  private readonly taken = new Map<string, number>();
  private readonly lastReserved = new Map<string, number>();

  constructor(capacity = PLACES) {
    this.capacity = capacity;
  }

  /**
   * Takes a place.
   * @param force - a trial passes the cap.
   * @returns whether there was one.
   */
  take(merchantId: string, force: boolean): boolean {
    const taken = this.taken.get(merchantId) ?? 0;
    if (taken >= this.capacity && !force) return false;
    this.taken.set(merchantId, taken + 1);
    return true;
  }

  /** Gives a place back. */
  leave(merchantId: string): void {
    const taken = (this.taken.get(merchantId) ?? 1) - 1;
    if (taken > 0) this.taken.set(merchantId, taken);
    else this.taken.delete(merchantId);
  }

  /** How long to wait for the next reserved place, milliseconds. */
  reserve(merchantId: string, now: number, random = Math.random()): number {
    const [least, most] = APART_MS;
    const last = this.lastReserved.get(merchantId) ?? 0;
    const next = Math.min(
      Math.max(last + least + random * (most - least), now + NEAREST_MS + random * most),
      now + FARTHEST_MS,
    );
    this.lastReserved.set(merchantId, next);
    if (this.lastReserved.size > 10_000) this.forgetPast(now);
    return Math.round(next - now);
  }

  private forgetPast(now: number): void {
    for (const [merchantId, at] of this.lastReserved) if (at < now) this.lastReserved.delete(merchantId);
  }
}
