import { isUtf8 } from 'node:buffer';
import type { Dispatcher } from 'undici';
import { retryAfterMs } from '../policy/retry-after.ts';
import { kindOfStatus, type NoResponseVerdict, type Verdict } from '../policy/verdicts.ts';
import type { AddressGuard } from './address-guard.ts';
import { Connections } from './connections.ts';
import { Connector } from './connector.ts';
import { EgressProxy } from './egress-proxy.ts';
import {
  AddressBlocked,
  blocked,
  ClosedBeforeUse,
  isOwnFault,
  isRefusedRequest,
  lateFailure,
  networkFailure,
  noAnswer,
  notAStatus,
  SendingFault,
  type NetworkFailure,
} from './network-failures.ts';
import { readableText, readExcerpt } from './response-body.ts';
import { Resolver } from './resolver.ts';
import { trusted } from './tls.ts';
import { Trace } from './trace.ts';
import { messageOf } from '../message-of.ts';

/** One POST. */
export interface Post {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** R5: limit of the whole exchange up to the response headers, milliseconds. */
  readonly timeoutMs: number;
}

export interface SenderOptions {
  /** Judges each address before it is connected to. */
  readonly guard: Pick<AddressGuard, 'refusal'>;
  /** Certificates in PEM that are trusted beside those of Node and of the operating system. */
  readonly trustedCertificates?: readonly string[] | undefined;
  /** A forward proxy for all webhooks: `http://` or `https://`, with user and password where it wants them. */
  readonly egressProxy?: URL | undefined;
  /** Asked instead of the system's name servers: addresses with or without port. */
  readonly nameServers?: readonly string[] | undefined;
}

/** Longest `Location` that is kept. */
const LOCATION_LENGTH = 1024;

/** Posts webhooks and tells what came of it. Never follows a redirect, never sends twice (R4, R64). */
export class Sender {
  private readonly connector: Connector;
  private readonly connections = new Connections();

  constructor({ guard, trustedCertificates, egressProxy, nameServers }: SenderOptions) {
    const trust = trusted(trustedCertificates);
    const resolver = new Resolver({ nameServers });
    const proxy = egressProxy && new EgressProxy(egressProxy, resolver, trust);
    this.connector = new Connector({ guard, resolver, trust, proxy });
  }

  /**
   * R1–R5: one exchange. Returns a verdict for whatever the other side does; the verdict is fixed as soon
   * as the response headers are in.
   * @throws {@link SendingFault}, only if nothing was sent and the other side is not to blame (R6).
   */
  async post(post: Post): Promise<Verdict> {
    const url = new URL(post.url);
    if (url.protocol !== 'https:' && url.protocol !== 'http:') {
      throw new SendingFault(`the address must begin with https:// or http://, not ${url.protocol}`);
    }
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(new Error('no time was left')), post.timeoutMs);
    const exchange: Exchange = { post, url, trace: new Trace(), signal: deadline.signal };
    try {
      const response = await this.exchange(exchange);
      clearTimeout(timer);
      return await verdictOf(response, exchange);
    } catch (error) {
      return failedVerdict(error, exchange);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Closes the connections that no exchange is using. */
  close(): void {
    this.connections.closeKept();
  }

  private async exchange(exchange: Exchange): Promise<Dispatcher.ResponseData> {
    const { url, trace, signal } = exchange;
    for (;;) {
      const kept = this.connections.take(url.origin);
      if (kept !== undefined) trace.reuses(kept.address);
      const connection =
        kept ?? this.connections.opened(url.origin, await this.connector.open(url, trace, signal));
      trace.enter('firstByte');
      try {
        const response = await connection.request(requestOf(exchange));
        trace.leave();
        this.connections.keep(connection, response.body);
        return response;
      } catch (error) {
        connection.close();
        // Nothing was written to the kept connection, so this is not sending twice.
        if (!(kept !== undefined && error instanceof ClosedBeforeUse)) throw error;
        trace.restart();
      }
    }
  }
}

interface Exchange {
  readonly post: Post;
  readonly url: URL;
  readonly trace: Trace;
  /** Aborted at the deadline. */
  readonly signal: AbortSignal;
}

function requestOf({ post, url, signal }: Exchange): Omit<Dispatcher.RequestOptions, 'origin'> {
  const { headers, body } = post;
  return { method: 'POST', path: url.pathname + url.search, headers, body, signal };
}

async function verdictOf(response: Dispatcher.ResponseData, exchange: Exchange): Promise<Verdict> {
  const facts = exchange.trace.facts();
  const { statusCode: status, headers, body } = response;
  const excerpt = await readExcerpt(body, header(headers, 'content-encoding'));
  const kind = kindOfStatus(status);
  if (kind === 'network') return { kind, ...notAStatus(status), ...facts };
  const retryAfter = header(headers, 'retry-after');
  const retryAfterAsked = retryAfter === undefined ? undefined : retryAfterMs(retryAfter, Date.now());
  const location = kind === 'redirected' ? header(headers, 'location') : undefined;
  return {
    kind,
    status,
    ...facts,
    ...(retryAfterAsked === undefined ? {} : { retryAfterMs: retryAfterAsked }),
    ...(location === undefined ? {} : { location: targetOf(location) }),
    ...excerpt,
  };
}

/** A `Location` as text: undici takes each byte for a character, where servers write UTF-8. */
function targetOf(location: string): string {
  const bytes = Buffer.from(location, 'latin1');
  const text = isUtf8(bytes) ? bytes.toString() : location;
  return readableText(text).slice(0, LOCATION_LENGTH).toWellFormed();
}

function failedVerdict(error: unknown, exchange: Exchange): NoResponseVerdict {
  const phase = exchange.trace.phase();
  if (error instanceof SendingFault) throw error;
  if (isRefusedRequest(error) || (phase !== 'firstByte' && isOwnFault(error, phase))) {
    throw new SendingFault(messageOf(error), { cause: error });
  }
  const verdict = (kind: NoResponseVerdict['kind'], failure: NetworkFailure): NoResponseVerdict => {
    exchange.trace.leave();
    return { kind, ...failure, ...exchange.trace.facts() };
  };
  if (error instanceof AddressBlocked) return verdict('address-blocked', blocked(error.message));
  if (!exchange.signal.aborted) return verdict('network', networkFailure(error, phase));
  const late = lateFailure(phase);
  return late === undefined
    ? verdict('timeout', noAnswer(exchange.post.timeoutMs))
    : verdict('network', late);
}

function header(headers: Dispatcher.ResponseData['headers'], name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}
