import { randomUUID } from 'node:crypto';
import type { Place } from '../policy/waiting-room.ts';
import type { Report } from '../workflows/messages.ts';

/** What a report carries beside its number. */
export type ReportParts = Partial<Omit<Report, 'reporter' | 'sequence' | 'notices'>>;

/**
 * How soon something must be told, milliseconds: at once for what changes what others may do; later for a success
 * after recent failures, whose ratio it may mend.
 */
const SEND_WITHIN_MS = { now: 50, soon: 1_000 } as const;
export type Urgency = keyof typeof SEND_WITHIN_MS;
/** Reports of a merchant are at least this far apart. */
const APART_MS = 200;
/** So many samples are sent, whatever they are. */
const MOST_SAMPLES = 1_000;
/** R41: how long a sample counts, and so how long a success is kept that there was no reason to tell. */
const WINDOW_MS = 5 * 60_000;
/** Successes matter to the ratio while failures are in the window; the entity tells of one up to a minute later. */
const FAILURE_REMEMBERED_MS = WINDOW_MS + 60_000;
const RESEND_AFTER_MS = 1_000;

interface Outbox {
  parts: { [Part in keyof Required<ReportParts>]: [...Required<ReportParts>[Part]] };
  waiters: PromiseWithResolvers<void>[];
  /** A report whose sending failed: whether it arrived is not known, so it goes again under its own number. */
  unsent: Report | undefined;
  timer: NodeJS.Timeout | undefined;
  dueAt: number;
  lastSentAt: number;
  lastFailureAt: number;
  sending: Promise<void> | undefined;
  /** Fires when nothing was told for as long as anything here matters. */
  readonly forget: NodeJS.Timeout;
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

  /**
   * R40: tells of a finished attempt: a failure at once, a success soon while there are failures whose ratio it mends.
   * Other successes change nothing and are kept: they go with the next report, or are dropped when they would count
   * no more. Resolves when what is to be told is durable.
   * @param lastFailureAt - the merchant's last failure that is known of beside those told here, Unix milliseconds.
   */
  sample(
    merchantId: string,
    at: number,
    failed: boolean,
    epoch: number,
    lastFailureAt = Number.NEGATIVE_INFINITY,
  ): Promise<void> {
    const outbox = this.outboxOf(merchantId);
    outbox.lastFailureAt = Math.max(outbox.lastFailureAt, failed ? at : lastFailureAt);
    const matters = at - outbox.lastFailureAt < FAILURE_REMEMBERED_MS;
    const { samples } = outbox.parts;
    if (matters || samples.length >= MOST_SAMPLES - 1) {
      return this.tell(merchantId, { samples: [[at, failed ? 1 : 0, epoch]] }, failed ? 'now' : 'soon');
    }
    samples.push([at, 0, epoch]);
    const inWindow = samples.findIndex(([stamp]) => at - stamp < WINDOW_MS);
    samples.splice(0, inWindow);
    return Promise.resolve();
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
    const outbox = this.outboxes.get(merchantId) ?? newOutbox(() => this.forgetIfIdle(merchantId));
    this.outboxes.set(merchantId, outbox);
    outbox.forget.refresh();
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
  }

  private forgetIfIdle(merchantId: string): void {
    const outbox = this.outboxes.get(merchantId);
    if (outbox === undefined) return;
    const idle = outbox.waiters.length === 0 && outbox.sending === undefined && outbox.unsent === undefined;
    if (idle) this.outboxes.delete(merchantId);
    else outbox.forget.refresh();
  }

  private async sendAll(merchantId: string, outbox: Outbox): Promise<void> {
    if (outbox.unsent !== undefined && !(await this.sendOne(merchantId, outbox, outbox.unsent, []))) return;
    const { parts, waiters } = outbox;
    if (waiters.length === 0 && parts.samples.length === 0) return;
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

function noParts(): Outbox['parts'] {
  return { samples: [], trials: [], slowDowns: [], holds: [], left: [], unusedPermits: [] };
}

function newOutbox(forget: () => void): Outbox {
  return {
    parts: noParts(),
    waiters: [],
    unsent: undefined,
    timer: undefined,
    dueAt: Number.POSITIVE_INFINITY,
    lastSentAt: 0,
    lastFailureAt: 0,
    sending: undefined,
    forget: setTimeout(forget, FAILURE_REMEMBERED_MS).unref(),
  };
}

/** Samples are judged in the order of their stamps: a ratio must not be judged before the successes that were earlier. */
function inTimeOrder(parts: Required<ReportParts>): Required<ReportParts> {
  return { ...parts, samples: parts.samples.toSorted(([a], [b]) => a - b) };
}
