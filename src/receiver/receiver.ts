import type { WebhookEvent } from './events.ts';
import { memoryStore, once, type OnceStore } from './once.ts';
import { problemOf, type Problem, type ProblemCode } from './problems.ts';
import {
  header,
  isId,
  verify,
  type HeadersLike,
  type Secrets,
  type SignatureFamily,
  type VerifyOptions,
} from './verify.ts';

export interface ReceiverOptions<Tx = undefined> extends VerifyOptions {
  /** The signing secrets; a function is asked at each request, so that a rotation needs no restart. */
  readonly secrets: Secrets | (() => Secrets | Promise<Secrets>);
  /**
   * Processes one event. The answer is 2xx only once it has returned. If it throws, the answer is 5xx and the webhook
   * comes again. Return for events that you do not use.
   */
  readonly handler: (event: WebhookEvent, tx: Tx) => unknown;
  /** What has been handled; a {@link memoryStore} by default. */
  readonly store?: OnceStore<Tx> | undefined;
  /** What is handled once; the webhook id by default. */
  readonly key?: ((event: WebhookEvent) => string) | undefined;
  /** Larger bodies are refused; 1 MiB by default. The sender takes at most 256 KiB. */
  readonly maxBodyBytes?: number | undefined;
  /** Told of each request; writes lines of JSON to the console by default. */
  readonly log?: ((entry: LogEntry) => void) | undefined;
}

/** One request in a log. It has no body and no secret. */
export interface LogEntry {
  readonly outcome: 'handled' | 'duplicate' | 'busy' | 'failed' | 'refused' | 'probe';
  /** What was answered. */
  readonly status: number;
  readonly durationMs: number;
  readonly id?: string | undefined;
  readonly type?: string | undefined;
  readonly attempt?: number | undefined;
  /** Why it was refused. */
  readonly problem?: Problem;
  /** What the handler or the store threw. */
  readonly error?: unknown;
}

/** A request: its method if it is known, its headers, and its raw body or a function that reads it. */
export interface Incoming {
  readonly method?: string | undefined;
  readonly headers: HeadersLike;
  readonly body: unknown;
}

/** In place of a body that could not be had. */
export class NoBody {
  readonly code: ProblemCode;
  constructor(code: ProblemCode) {
    this.code = code;
  }
}

/** What to answer. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** As it was logged. */
  readonly entry: LogEntry;
}

/** Thrown by a handler: 503, and come again no sooner than this (R12). */
export class RetryLater extends Error {
  override readonly name = 'RetryLater';
  readonly seconds: number;
  constructor(seconds: number, message?: string) {
    super(message);
    this.seconds = seconds;
  }
}

/** Event type of a question of the sender to this kit (docs/receivers.md). Handlers never see one. */
export const PROBE_EVENT = 'webhook.probe';
/** Written by the kit in its answer to a probe. */
const PROBE_PROTOCOL = 'hookladder/1';
const PROBES_COUNTED = 1_000;

type Step = Omit<LogEntry, 'durationMs' | 'status'> & {
  readonly status: number;
  readonly answer: object;
  readonly retryAfterSeconds?: number;
};

/**
 * Verifies a request, handles it once, and says what to answer. For the usual frameworks there are adapters.
 * @returns a function that never rejects.
 */
export function createReceiver<Tx = undefined>(
  options: ReceiverOptions<Tx>,
): (incoming: Incoming) => Promise<Reply> {
  const { secrets, handler, key = idOf, log = toConsole, store = memoryStore() as OnceStore<Tx> } = options;
  const probes = new Map<string, number>();

  /** R1, R2: 2xx only when it is done; 5xx, never 409, while somebody else is at it: a 4xx would end the delivery. */
  async function handle(event: WebhookEvent, work: (tx: Tx) => unknown, keyOf: typeof key): Promise<Step> {
    try {
      const { outcome } = await once(store, keyOf(event), work);
      if (outcome !== 'busy') return { outcome, status: 200, answer: { outcome } };
      return { outcome, status: 503, answer: { outcome }, retryAfterSeconds: 1 };
    } catch (error) {
      const step = { outcome: 'failed', answer: { outcome: 'failed' }, error } as const;
      return error instanceof RetryLater
        ? { ...step, status: 503, retryAfterSeconds: error.seconds }
        : { ...step, status: 500 };
    }
  }

  async function answerProbe(event: WebhookEvent, families: readonly SignatureFamily[]): Promise<Step> {
    const { probe } = event.data as { probe?: unknown };
    const about = { receiver: PROBE_PROTOCOL, probe, id: event.id };
    const told = (step: Step, more: object): Step => ({
      ...step,
      outcome: 'probe',
      answer: { ...about, ...more },
    });
    if (probe === 'temporary-fault') {
      const { error: _, ...step } = await handle(event, fail, idOf);
      return told(step, {});
    }
    if (probe === 'dedup') {
      const step = await handle(event, () => count(probes, event.id), idOf);
      const handled = probes.get(event.id) ?? 0;
      return told(step, {
        outcome: step.outcome,
        handled,
        store: options.store === undefined ? 'memory' : 'given',
      });
    }
    const skewSeconds = Math.round((options.now ?? Date.now)() / 1_000 - event.timestamp.getTime() / 1_000);
    const seen = { families, bodyBytes: event.rawBody.length, skewSeconds };
    return told(
      { outcome: 'probe', status: 200, answer: {} },
      probe === 'echo' ? seen : { probe: 'unknown' },
    );
  }

  async function stepOf({ method = 'POST', headers, body: given }: Incoming): Promise<Step> {
    if (method !== 'POST') return refusal(problemOf('not-post'));
    const body: unknown = typeof given === 'function' ? await given() : given;
    if (body instanceof NoBody) return refusal(problemOf(body.code));
    const verified = await verify(
      headers,
      body,
      typeof secrets === 'function' ? await secrets() : secrets,
      options,
    );
    if (!verified.ok) {
      // As it says: nobody vouches for it, but it helps to find the webhook.
      const id = header(headers, 'x-webhook-id') ?? header(headers, 'webhook-id') ?? '';
      return { ...refusal(verified.problem), id: isId(id) ? id : undefined };
    }
    const { event, families } = verified;
    const step =
      event.type === PROBE_EVENT
        ? await answerProbe(event, families)
        : await handle(event, (tx) => handler(event, tx), key);
    const { id, type, attempt } = event;
    return { ...step, id, type, attempt };
  }

  return async (incoming) => {
    const startedAt = Date.now();
    const { answer, retryAfterSeconds, ...step } = await stepOf(incoming).catch(
      // Secrets that cannot be read: the fault is on this side.
      (error: unknown): Step => ({ outcome: 'failed', status: 500, answer: { outcome: 'failed' }, error }),
    );
    const entry: LogEntry = { ...step, durationMs: Date.now() - startedAt };
    try {
      log(entry);
    } catch {
      // A log that fails does not make a handled webhook come again.
    }
    return {
      status: step.status,
      headers: {
        'content-type': 'application/json',
        ...(step.status === 405 ? { allow: 'POST' } : {}),
        ...(step.status === 413 ? { connection: 'close' } : {}),
        ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterSeconds)) }),
      },
      body: JSON.stringify(answer),
      entry,
    };
  };
}

function idOf({ id }: WebhookEvent): string {
  return id;
}

function fail(): never {
  throw new Error(PROBE_EVENT);
}

/** The code is told to whoever asks, for the sender shows it to his operators; it says nothing of secrets. */
function refusal(problem: Problem): Step {
  return { outcome: 'refused', status: problem.status, answer: { error: problem.code }, problem };
}

function count(counts: Map<string, number>, id: string): void {
  const [oldest] = counts.keys();
  if (counts.size >= PROBES_COUNTED && oldest !== undefined) counts.delete(oldest);
  counts.set(id, (counts.get(id) ?? 0) + 1);
}

function toConsole({ error, ...entry }: LogEntry): void {
  const line = JSON.stringify({ webhook: entry });
  if (entry.status < 400) console.log(line);
  else console.error(line, ...(error === undefined ? [] : [error]));
}
