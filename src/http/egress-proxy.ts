import { isIP, type Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import { Client } from 'undici';
import { firstConnection } from './first-connection.ts';
import { ExchangeFailed, notReachedByProxy, SendingFault } from './network-failures.ts';
import { hostOf, portOf } from './origin.ts';
import type { Resolver } from './resolver.ts';
import { secured } from './tls.ts';
import type { Trace } from './trace.ts';

/**
 * What is wrong with the address of a proxy, in words that do not contain it: it may have a password. `undefined` if
 * nothing is.
 */
export function proxyProblem(text: string): string | undefined {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === '') {
    return 'must be a URL such as http://proxy.internal:3128';
  }
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '')
    return 'must not have a path, a query or a fragment';
  try {
    credentialsOf(url);
  } catch {
    return 'has a user or password that is not percent-encoded';
  }
  return undefined;
}

/** What a proxy that works says of a target that it cannot reach. */
const targetUnreachable = new Set([502, 503, 504]);

/**
 * A forward proxy that all webhooks go through, for fixed source addresses. It is told the address to connect to,
 * not the name, so the address is the one that was checked.
 */
export class EgressProxy {
  private readonly url: URL;
  private readonly resolver: Pick<Resolver, 'resolve'>;
  private readonly trust: SecureContext;

  constructor(url: URL, resolver: Pick<Resolver, 'resolve'>, trust: SecureContext) {
    this.url = url;
    this.resolver = resolver;
    this.trust = trust;
  }

  /**
   * A connection through the proxy to the first of the addresses that it reaches.
   * @throws {@link SendingFault} if the proxy is to blame (R6), {@link ExchangeFailed} if it does not reach the target.
   */
  async tunnel(
    addresses: readonly string[],
    port: number,
    trace: Trace,
    signal: AbortSignal,
  ): Promise<{ readonly socket: Socket; readonly address: string }> {
    let first: unknown;
    for (const address of addresses) {
      const target = `${isIP(address) === 6 ? `[${address}]` : address}:${port}`;
      trace.enter('proxy');
      const proxy = await this.reach(signal).catch((error: unknown) => {
        throw this.fault('cannot be reached', error);
      });
      trace.enter('connect');
      try {
        return { socket: await this.connectThrough(proxy, target, signal), address };
      } catch (error) {
        proxy.destroy();
        if (!(error instanceof ExchangeFailed)) throw error;
        first ??= error;
      }
    }
    throw first;
  }

  private async reach(signal: AbortSignal): Promise<Socket> {
    const host = hostOf(this.url);
    const addresses = isIP(host) === 0 ? await this.resolver.resolve(host, signal) : [host];
    const socket = await firstConnection(addresses, portOf(this.url), signal);
    return this.url.protocol === 'https:' ? await secured(socket, host, this.trust, signal) : socket;
  }

  private async connectThrough(proxy: Socket, target: string, signal: AbortSignal): Promise<Socket> {
    const client = new Client(this.url.origin, {
      connect: (_options, callback) => queueMicrotask(() => callback(null, proxy)),
      headersTimeout: 0,
    });
    const { statusCode, socket } = await client
      .connect({ path: target, headers: { host: target, ...credentialsOf(this.url) }, signal })
      .catch((error: unknown) => {
        if (signal.aborted) throw error;
        throw this.fault('did not answer', error);
      });
    if (statusCode >= 200 && statusCode < 300) return socket as Socket;
    if (targetUnreachable.has(statusCode)) throw new ExchangeFailed(notReachedByProxy(statusCode));
    throw this.fault(`refuses to connect to ${target}: HTTP ${statusCode}`);
  }

  private fault(what: string, cause?: unknown): SendingFault {
    const why = cause instanceof Error ? ` (${cause.message})` : '';
    return new SendingFault(`the egress proxy ${this.url.host} ${what}${why}`, { cause });
  }
}

function credentialsOf({ username, password }: URL): Record<string, string> {
  if (username === '') return {};
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` };
}
