import { performance } from 'node:perf_hooks';
import type { Readable } from 'node:stream';
import { Agent, errors } from 'undici';
import { retryAfterMs } from '../policy/retry-after.ts';
import { kindOfStatus, type Verdict } from '../policy/verdicts.ts';
import { networkFailure } from './network-failures.ts';

/** One POST. */
export interface Post {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** R5: limit of the whole exchange up to the response headers, milliseconds. */
  readonly timeoutMs: number;
}

/** At most this much of a response is kept. */
const EXCERPT_BYTES = 1024;
/** A verdict waits this long for the first bytes of the body. */
const EXCERPT_WITHIN_MS = 100;
/** A body is read this far, so that its connection can be used again; then the connection is closed. */
const DRAIN_BYTES = 64 * 1024;
const DRAIN_WITHIN_MS = 1_000;
/** Longest `Location` that is kept. */
const LOCATION_LENGTH = 1024;

/** Posts webhooks and tells what came of it. Never follows a redirect, never sends twice (R4, R64). */
export class Sender {
  private readonly agent: Agent;

  constructor() {
    this.agent = new Agent({
      connections: 64,
      pipelining: 1,
      keepAliveTimeout: 4_000,
      // The abort signal bounds the whole exchange; undici's own timers would only bound parts of it.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { timeout: 0 },
    });
  }

  /**
   * R1–R5: one exchange. Returns a verdict for whatever the other side does; the verdict is fixed as soon
   * as the response headers are in.
   * @throws only if nothing was sent because the request itself is malformed: a fault of our own.
   */
  async post({ url, headers, body, timeoutMs }: Post): Promise<Verdict> {
    const startedAt = performance.now();
    const durationMs = () => Math.round(performance.now() - startedAt);
    const { origin, pathname, search } = new URL(url);
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), timeoutMs);
    try {
      const response = await this.agent.request({
        origin,
        path: pathname + search,
        method: 'POST',
        headers,
        body,
        signal: deadline.signal,
      });
      clearTimeout(timer);
      const facts = { durationMs: durationMs() };
      const excerpt = await readExcerpt(response.body);
      const kind = kindOfStatus(response.statusCode);
      if (kind === 'network') {
        const message = `the status ${response.statusCode} is none that HTTP knows`;
        return { kind, code: 'malformed-response', message, ...facts };
      }
      const retryAfter = header(response.headers, 'retry-after');
      const retryAfterAsked = retryAfter === undefined ? undefined : retryAfterMs(retryAfter, Date.now());
      const location = kind === 'redirected' ? header(response.headers, 'location') : undefined;
      return {
        kind,
        status: response.statusCode,
        ...facts,
        ...(retryAfterAsked === undefined ? {} : { retryAfterMs: retryAfterAsked }),
        ...(location === undefined ? {} : { location: location.slice(0, LOCATION_LENGTH) }),
        ...excerpt,
      };
    } catch (error) {
      if (error instanceof errors.InvalidArgumentError) throw error;
      if (deadline.signal.aborted) {
        const message = `no response headers within ${timeoutMs / 1_000} s`;
        return { kind: 'timeout', code: 'timeout', message, durationMs: durationMs() };
      }
      return { kind: 'network', ...networkFailure(error), durationMs: durationMs() };
    } finally {
      clearTimeout(timer);
    }
  }

  /** Closes all connections once their exchanges have ended. */
  async close(): Promise<void> {
    await this.agent.close();
  }
}

/** Takes the first bytes of a body and lets go of the rest; whatever the body does changes nothing (R1). */
function readExcerpt(body: Readable): Promise<{ excerpt?: string; excerptCut?: boolean }> {
  return new Promise((resolve) => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    const take = (ended: boolean) => {
      clearTimeout(takeTimer);
      if (size === 0 && ended) return resolve({});
      const bytes = Buffer.concat(chunks).subarray(0, EXCERPT_BYTES);
      resolve({ excerpt: decode(bytes), ...(ended && size <= EXCERPT_BYTES ? {} : { excerptCut: true }) });
    };
    const takeTimer = setTimeout(() => take(false), EXCERPT_WITHIN_MS);
    const drainTimer = setTimeout(() => body.destroy(), DRAIN_WITHIN_MS);
    body.on('data', (chunk: Uint8Array) => {
      if (size < EXCERPT_BYTES) chunks.push(chunk);
      size += chunk.length;
      if (size > EXCERPT_BYTES) take(false);
      if (size > DRAIN_BYTES) body.destroy();
    });
    body.once('end', () => take(true));
    body.once('error', () => take(false));
    body.once('close', () => {
      clearTimeout(drainTimer);
      take(false);
    });
  });
}

/** UTF-8 with a mark for what is not, and without control characters that would garble a terminal. */
function decode(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes, { stream: true });
  return text.replaceAll(/[\p{Cc}--[\t\n\r]]/gv, '\uFFFD');
}

function header(headers: Record<string, string | string[] | undefined>, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}
