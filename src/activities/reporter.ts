import { randomUUID } from 'node:crypto';
import type { Place } from '../policy/waiting-room.ts';
import type { Report } from '../workflows/messages.ts';

/** What a report carries beside its number. */
export type ReportParts = Partial<Omit<Report, 'reporter' | 'sequence'>>;

/**
 * How soon something must be told, milliseconds: at once for what changes what others may do; later for a success
 * after recent failures, whose ratio it may mend; rarely for one of a healthy merchant.
 */
const SEND_WITHIN_MS = { now: 50, soon: 1_000, rarely: 60_000 } as const;
export type Urgency = keyof typeof SEND_WITHIN_MS;
/** Reports of a merchant are at least this far apart. */
const APART_MS = 200;
/** A report is sent before its window of samples would overflow. */
const MOST_SAMPLES = 1_000;
/** R41: successes matter to the ratio while failures are in the window. */
const FAILURE_REMEMBERED_MS = 5 * 60_000;
const RESEND_AFTER_MS = 1_000;
const FORGET_AFTER_MS = 60_000;

interface Outbox {
  parts: Required<ReportParts>;
  waiters: PromiseWithResolvers<void>[];
  /** A report whose sending failed: whether it arrived is not known, so it goes again under its own number. */
  unsent: Report | undefined;
  timer: NodeJS.Timeout | undefined;
  dueAt: number;
  lastSentAt: number;
  lastFailureAt: number;
  sending: Promise<void> | undefined;
}

/**
 * Gathers what many attempts have to tell their merchant's entity, and sends it in few signals: at most five a
 * second for one merchant, since an entity takes about that many without falling behind.
 */
export class Reporter {
  private readonly send: (merchantId: string, report: Report) => Promise<void>;
  private readonly name = randomUUID().slice(0, 8);
  private sequence = 0;
  private readonly outboxes = new Map<string, Outbox>();

  constructor(send: (merchantId: string, report: Report) => Promise<void>) {
    this.send = send;
  }

  /** R40: tells of a finished attempt; a failure is told at once, a success when it matters. Resolves when durable. */
  sample(merchantId: string, at: number, failed: boolean, epoch: number): Promise<void> {
    const outbox = this.outboxOf(merchantId);
    if (failed) outbox.lastFailureAt = at;
    const success = at - outbox.lastFailureAt < FAILURE_REMEMBERED_MS ? 'soon' : 'rarely';
    return this.tell(merchantId, { samples: [[at, failed ? 1 : 0, epoch]] }, failed ? 'now' : success);
  }

  /** Registers a hold. */
  hold(merchantId: string, place: Place): Promise<void> {
    return this.tell(merchantId, { holds: [place] }, 'now');
  }

  /**
   * Puts something into the merchant's next report. Resolves when its signal is durable; rejects if it could not be
   * made so, and then it is sent again all the same.
   */
  tell(merchantId: string, parts: ReportParts, urgency: Urgency): Promise<void> {
    const outbox = this.outboxOf(merchantId);
    const { samples, trials, slowDowns, holds, left, unusedPermits } = outbox.parts;
    outbox.parts = {
      samples: [...samples, ...(parts.samples ?? [])],
      trials: [...trials, ...(parts.trials ?? [])],
      slowDowns: [...slowDowns, ...(parts.slowDowns ?? [])],
      holds: [...holds, ...(parts.holds ?? [])],
      left: [...left, ...(parts.left ?? [])],
      unusedPermits: [...unusedPermits, ...(parts.unusedPermits ?? [])],
    };
    const waiter = Promise.withResolvers<void>();
    outbox.waiters.push(waiter);
    const full = outbox.parts.samples.length >= MOST_SAMPLES;
    this.schedule(merchantId, outbox, full ? 0 : SEND_WITHIN_MS[urgency]);
    return waiter.promise;
  }

  /** Sends all that is gathered, now. */
  async flush(): Promise<void> {
    await Promise.allSettled(
      [...this.outboxes.keys()].map(async (merchantId) => await this.sendNow(merchantId)),
    );
  }

  private outboxOf(merchantId: string): Outbox {
    const outbox = this.outboxes.get(merchantId) ?? newOutbox();
    this.outboxes.set(merchantId, outbox);
    return outbox;
  }

  private schedule(merchantId: string, outbox: Outbox, withinMs: number): void {
    outbox.dueAt = Math.min(outbox.dueAt, Date.now() + withinMs);
    if (outbox.sending !== undefined) return;
    clearTimeout(outbox.timer);
    const at = Math.max(outbox.dueAt, outbox.lastSentAt + APART_MS);
    outbox.timer = setTimeout(() => void this.sendNow(merchantId), Math.max(0, at - Date.now()));
  }

  private async sendNow(merchantId: string): Promise<void> {
    const outbox = this.outboxes.get(merchantId);
    if (outbox === undefined) return;
    // One that is asked for while another is under way follows it.
    while (outbox.sending !== undefined) await outbox.sending;
    clearTimeout(outbox.timer);
    outbox.dueAt = Number.POSITIVE_INFINITY;
    outbox.sending = this.sendAll(merchantId, outbox);
    await outbox.sending;
    outbox.sending = undefined;
    outbox.lastSentAt = Date.now();
    if (outbox.unsent !== undefined) this.schedule(merchantId, outbox, RESEND_AFTER_MS);
    else if (outbox.waiters.length > 0) this.schedule(merchantId, outbox, Number.POSITIVE_INFINITY);
    else setTimeout(() => this.forgetIfIdle(merchantId, outbox), FORGET_AFTER_MS).unref();
  }

  /** A merchant without failures in the window has nothing worth remembering. */
  private forgetIfIdle(merchantId: string, outbox: Outbox): void {
    const idle = outbox.waiters.length === 0 && outbox.sending === undefined && outbox.unsent === undefined;
    const healthy = Date.now() - outbox.lastFailureAt >= FAILURE_REMEMBERED_MS;
    if (idle && healthy && this.outboxes.get(merchantId) === outbox) this.outboxes.delete(merchantId);
  }

  private async sendAll(merchantId: string, outbox: Outbox): Promise<void> {
    if (outbox.unsent !== undefined && !(await this.sendOne(merchantId, outbox, outbox.unsent, []))) return;
    if (outbox.waiters.length === 0) return;
    const { parts, waiters } = outbox;
    // Counted over all merchants: an outbox may be forgotten, its number must not begin anew.
    this.sequence += 1;
    Object.assign(outbox, { parts: noParts(), waiters: [] });
    await this.sendOne(
      merchantId,
      outbox,
      { reporter: this.name, sequence: this.sequence, ...inTimeOrder(parts) },
      waiters,
    );
  }

  private async sendOne(
    merchantId: string,
    outbox: Outbox,
    report: Report,
    waiters: Outbox['waiters'],
  ): Promise<boolean> {
    try {
      await this.send(merchantId, report);
      outbox.unsent = undefined;
      for (const waiter of waiters) waiter.resolve();
      return true;
    } catch (error) {
      outbox.unsent = report;
      for (const waiter of waiters) waiter.reject(error);
      return false;
    }
  }
}

function noParts(): Required<ReportParts> {
  return { samples: [], trials: [], slowDowns: [], holds: [], left: [], unusedPermits: [] };
}

function newOutbox(): Outbox {
  return {
    parts: noParts(),
    waiters: [],
    unsent: undefined,
    timer: undefined,
    dueAt: Number.POSITIVE_INFINITY,
    lastSentAt: 0,
    lastFailureAt: 0,
    sending: undefined,
  };
}

/** Samples are judged in the order of their stamps: a ratio must not be judged before the successes that were earlier. */
function inTimeOrder(parts: Required<ReportParts>): Required<ReportParts> {
  return { ...parts, samples: parts.samples.toSorted(([a], [b]) => a - b) };
}
