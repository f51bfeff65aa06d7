import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { masked } from '../activities/masking.ts';
import { TEST_EVENT } from '../contract.ts';
import type { Sender } from '../http/sender.ts';
import { signatureHeaders } from '../http/signatures.ts';
import type { Verdict } from '../policy/verdicts.ts';
import { VERSION } from '../version.ts';

/** Where to, and with what. */
export interface Endpoint {
  readonly url: string;
  readonly secret: string;
  /** Custom headers of the endpoint. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** How patient the doctor is; all in milliseconds. */
export interface Limits {
  /** R5: of one exchange. */
  readonly timeoutMs: number;
  /** Between the beginnings of two requests. */
  readonly paceMs: number;
  /** After this no request is begun. */
  readonly totalMs: number;
  /** An idle connection is watched for this long. */
  readonly idleMs: number;
  /** How many answers are timed. */
  readonly samples: number;
}

export const defaultLimits: Limits = {
  timeoutMs: 10_000,
  paceMs: 200,
  totalMs: 180_000,
  // The sender keeps one for 4 s.
  idleMs: 3_500,
  samples: 20,
};

/** One test event. What is left out is as a platform sends it. */
export interface TestEvent {
  /** Tells what it is for, in its id. */
  readonly name: string;
  readonly id?: string;
  /** The exact JSON text; a test event by default. */
  readonly body?: string;
  /** Sent in place of the body that was signed. */
  readonly bodySent?: string;
  readonly secret?: string;
  readonly nextSecret?: string;
  /** Seconds from now to its timestamp. */
  readonly shift?: number;
  /** Changes headers once they are signed; `undefined` drops one. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** Not after the others, but at once. */
  readonly atOnce?: boolean;
}

/** The time of the whole examination is up. */
export class TimeIsUp extends Error {
  override readonly name = 'TimeIsUp';
}

const LONGEST_WAIT_MS = 10_000;
const RESENT_AT_MOST = 2;

/** Sends test events, signed and paced, and remembers what has to be known of all of them. */
export class TestRequests {
  /** Begins the id of each event. */
  readonly run = `doctor_${randomBytes(4).toString('hex')}`;
  readonly endpoint: Endpoint;
  readonly limits: Limits;
  sent = 0;
  /** Answers 429. */
  limited = 0;
  /** Requests that got lost on a connection that had been kept, and were sent again. */
  lostOnReuse = 0;
  /** How many answers gave the secret away. */
  leaks = 0;
  /** How long answers took, and what got none. */
  readonly verdicts: Verdict[] = [];
  private readonly sender: Pick<Sender, 'post'>;
  private readonly type: string;
  /** Unix milliseconds; after it no request is begun. */
  deadline = Number.POSITIVE_INFINITY;
  private nextAt = 0;

  constructor(sender: Pick<Sender, 'post'>, endpoint: Endpoint, limits: Limits, type = TEST_EVENT) {
    this.sender = sender;
    this.endpoint = endpoint;
    this.limits = limits;
    this.type = type;
  }

  /** The body of a test event; marked as one, in compact JSON that every library writes alike. */
  body(type: string = this.type, more: Readonly<Record<string, unknown>> = {}): string {
    return JSON.stringify({ type, test: true, run: this.run, ...more });
  }

  /**
   * @throws {@link TimeIsUp}; SendingFault if nothing can be sent from here (R6).
   */
  async send(event: TestEvent): Promise<Verdict> {
    for (let resent = 0; ; resent++) {
      if (event.atOnce !== true) await this.turn();
      const verdict = await this.post(event);
      const isLost = verdict.kind === 'network' && verdict.timings?.reused === true;
      if (isLost) this.lostOnReuse += 1;
      if (verdict.kind === 'rate-limited') {
        this.limited += 1;
        this.nextAt = Date.now() + Math.min(verdict.retryAfterMs ?? 1_000, LONGEST_WAIT_MS);
      }
      const again = isLost || (verdict.kind === 'rate-limited' && resent === 0);
      if (again && resent < RESENT_AT_MOST) continue;
      this.verdicts.push(verdict);
      return verdict;
    }
  }

  /** Headers and body of an event, as they are sent. */
  request({ name, secret = this.endpoint.secret, nextSecret, shift = 0, ...event }: TestEvent): {
    headers: Record<string, string>;
    body: Buffer;
  } {
    const signed = Buffer.from(event.body ?? this.body());
    const webhookId = event.id ?? `${this.run}_${name}_${this.sent}`;
    const signable = { webhookId, timestamp: Math.floor(Date.now() / 1_000) + shift, body: signed };
    const secrets = { secret, ...(nextSecret === undefined ? {} : { nextSecret }) };
    const headers = {
      'Content-Type': 'application/json',
      'User-Agent': `hookladder/${VERSION}`,
      ...signatureHeaders(signable, secrets),
      'X-Webhook-Attempt': '1',
      'X-Webhook-Created-At': new Date().toISOString(),
      ...this.endpoint.headers,
      ...event.headers,
    };
    const present = Object.entries(headers).filter(([, value]) => value !== undefined);
    return {
      headers: Object.fromEntries(present) as Record<string, string>,
      body: event.bodySent === undefined ? signed : Buffer.from(event.bodySent),
    };
  }

  /** Waits for the turn of the next request. */
  async turn(): Promise<void> {
    const now = Date.now();
    const at = Math.max(now, this.nextAt);
    if (at > this.deadline) throw new TimeIsUp();
    this.nextAt = at + this.limits.paceMs;
    if (at > now) await sleep(at - now);
  }

  private async post(event: TestEvent): Promise<Verdict> {
    const { url, secret, headers = {} } = this.endpoint;
    const request = this.request(event);
    this.sent += 1;
    const verdict = await this.sender.post({ url, ...request, timeoutMs: this.limits.timeoutMs });
    if (excerptOf(masked(verdict, [secret])) !== excerptOf(verdict)) this.leaks += 1;
    return masked(verdict, [secret, ...Object.values(headers)]);
  }
}

function excerptOf(verdict: Verdict): string | undefined {
  return 'excerpt' in verdict ? verdict.excerpt : undefined;
}
