import { failedToReach, newEgress, reach, type Egress } from '../policy/egress.ts';
import type { Verdict } from '../policy/verdicts.ts';

/** What a process has come to think of its own way out. */
export interface EgressChange {
  readonly suspected: boolean;
  /** When the suspicion begins or began, Unix milliseconds. */
  readonly since: number;
  /** Merchants that were tried in the last 10 s, and tries. */
  readonly merchants: number;
  readonly tries: number;
  readonly failed: number;
}

/** R8: watches how the attempts of this process fare, over all merchants. */
export class EgressWatch {
  private egress: Egress = newEgress;
  private readonly tell: (change: EgressChange) => void;

  /** @param tell - told when a suspicion begins and when it ends. */
  constructor(tell: (change: EgressChange) => void) {
    this.tell = tell;
  }

  /** @param verdict - `undefined` for a fault of our own while sending, which speaks for a broken egress. */
  seen(merchantId: string, verdict: Verdict | undefined, at = Date.now()): void {
    const failed = verdict === undefined ? true : failedToReach(verdict);
    if (failed === undefined) return;
    const before = this.egress.suspectedSince;
    this.egress = reach(this.egress, { at, merchantId, failed });
    const now = this.egress.suspectedSince;
    const since = now ?? before;
    if (since === undefined || (now === undefined) === (before === undefined)) return;
    const { window } = this.egress;
    this.tell({
      suspected: now !== undefined,
      since,
      merchants: new Set(window.map((each) => each.merchantId)).size,
      tries: window.length,
      failed: window.filter((each) => each.failed).length,
    });
  }
}
