import type { Report } from '../workflows/messages.ts';
import type { Place } from '../policy/waiting-room.ts';

/** The first report of a merchant waits this long for company, milliseconds. */
const FIRST_AFTER_MS = 50;
/** Further reports of a merchant are at least this far apart, milliseconds. */
const APART_MS = 200;

interface Outbox {
  holds: Place[];
  left: string[];
  waiters: PromiseWithResolvers<void>[];
  timer: NodeJS.Timeout | undefined;
  lastSentAt: number;
  sending: Promise<void> | undefined;
}

/**
 * Gathers what many deliveries have to tell their merchant's entity, and sends it in few signals: at most
 * five a second for one merchant, since an entity takes about that many without falling behind.
 */
export class Reporter {
  private readonly send: (merchantId: string, report: Report) => Promise<void>;
  private readonly outboxes = new Map<string, Outbox>();

  constructor(send: (merchantId: string, report: Report) => Promise<void>) {
    this.send = send;
  }

  /** Registers a hold. Resolves when the entity's signal is durable; rejects if it could not be made so. */
  hold(merchantId: string, place: Place): Promise<void> {
    return this.add(merchantId, (outbox) => outbox.holds.push(place));
  }

  /** Tells that a held delivery has ended. Resolves and rejects like {@link hold}. */
  leave(merchantId: string, webhookId: string): Promise<void> {
    return this.add(merchantId, (outbox) => outbox.left.push(webhookId));
  }

  /** Sends all that is gathered, now. */
  async flush(): Promise<void> {
    await Promise.allSettled([...this.outboxes.keys()].map((merchantId) => this.sendNow(merchantId)));
  }

  private add(merchantId: string, put: (outbox: Outbox) => void): Promise<void> {
    const outbox = this.outboxes.get(merchantId) ?? newOutbox();
    this.outboxes.set(merchantId, outbox);
    put(outbox);
    const waiter = Promise.withResolvers<void>();
    outbox.waiters.push(waiter);
    this.schedule(merchantId, outbox);
    return waiter.promise;
  }

  private schedule(merchantId: string, outbox: Outbox): void {
    if (outbox.timer !== undefined || outbox.sending !== undefined) return;
    const sinceLast = Date.now() - outbox.lastSentAt;
    const delay = Math.max(FIRST_AFTER_MS, APART_MS - sinceLast);
    outbox.timer = setTimeout(() => void this.sendNow(merchantId), delay);
  }

  private async sendNow(merchantId: string): Promise<void> {
    const outbox = this.outboxes.get(merchantId);
    if (outbox === undefined) return;
    clearTimeout(outbox.timer);
    outbox.timer = undefined;
    await outbox.sending;
    const { holds, left, waiters } = outbox;
    Object.assign(outbox, { holds: [], left: [], waiters: [] });
    if (waiters.length > 0) {
      outbox.sending = this.send(merchantId, { holds, left }).then(
        () => waiters.forEach((waiter) => waiter.resolve()),
        (error: unknown) => waiters.forEach((waiter) => waiter.reject(error)),
      );
      await outbox.sending;
      outbox.sending = undefined;
      outbox.lastSentAt = Date.now();
    }
    if (outbox.waiters.length > 0) this.schedule(merchantId, outbox);
    else setTimeout(() => this.forgetIfIdle(merchantId, outbox), APART_MS).unref();
  }

  private forgetIfIdle(merchantId: string, outbox: Outbox): void {
    const idle = outbox.waiters.length === 0 && outbox.timer === undefined && outbox.sending === undefined;
    if (idle && this.outboxes.get(merchantId) === outbox) this.outboxes.delete(merchantId);
  }
}

function newOutbox(): Outbox {
  return { holds: [], left: [], waiters: [], timer: undefined, lastSentAt: 0, sending: undefined };
}
