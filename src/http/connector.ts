import { isIP, type Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import type { AddressGuard } from './address-guard.ts';
import type { EgressProxy } from './egress-proxy.ts';
import { firstConnection } from './first-connection.ts';
import { AddressBlocked } from './network-failures.ts';
import { hostOf, portOf } from './origin.ts';
import type { Resolver } from './resolver.ts';
import { secured } from './tls.ts';
import type { Trace } from './trace.ts';

/** Nobody publishes more in earnest. */
const ADDRESSES_TRIED = 8;

/** A connection that is ready for a request. */
export interface Connected {
  readonly socket: Socket;
  /** The address of the other side, which the guard has let pass. */
  readonly address: string;
}

export interface ConnectorParts {
  readonly guard: Pick<AddressGuard, 'refusal'>;
  readonly resolver: Pick<Resolver, 'resolve'>;
  readonly trust: SecureContext;
  readonly proxy: EgressProxy | undefined;
}

/** Opens connections to strangers: only to addresses that were looked up and checked just before. */
export class Connector {
  private readonly parts: ConnectorParts;

  constructor(parts: ConnectorParts) {
    this.parts = parts;
  }

  /**
   * Name lookup, address guard, TCP or tunnel, TLS.
   * @throws {@link AddressBlocked}, errors of DNS, sockets and TLS, errors of {@link EgressProxy.tunnel}, or the
   * signal's reason; the trace tells the phase and the address.
   */
  async open(url: URL, trace: Trace, signal: AbortSignal): Promise<Connected> {
    const { trust, proxy } = this.parts;
    const host = hostOf(url);
    const addresses = this.allowedOf(host, await this.addressesOf(host, trace, signal));
    const [first = host] = addresses;
    trace.reaches(first);
    const port = portOf(url);
    const connected =
      proxy === undefined
        ? await connectDirectly(addresses, port, trace, signal)
        : await proxy.tunnel(addresses, port, trace, signal);
    trace.reaches(connected.address);
    if (url.protocol === 'http:') return connected;
    trace.enter('tls');
    return { ...connected, socket: await secured(connected.socket, host, trust, signal) };
  }

  private async addressesOf(host: string, trace: Trace, signal: AbortSignal): Promise<readonly string[]> {
    if (isIP(host) !== 0) return [host];
    trace.enter('dns');
    const addresses = await this.parts.resolver.resolve(host, signal);
    trace.leave();
    return addresses;
  }

  private allowedOf(host: string, addresses: readonly string[]): string[] {
    const { guard } = this.parts;
    const allowed = addresses.filter((address) => guard.refusal(address) === undefined);
    if (allowed.length > 0) return allowed.slice(0, ADDRESSES_TRIED);
    const reasons = addresses.slice(0, 2).flatMap((address) => guard.refusal(address) ?? []);
    const resolved = isIP(host) === 0 ? 'the host name leads to no public address: ' : '';
    throw new AddressBlocked(`${resolved}${reasons.join(', ')}`);
  }
}

async function connectDirectly(
  addresses: readonly string[],
  port: number,
  trace: Trace,
  signal: AbortSignal,
): Promise<Connected> {
  trace.enter('connect');
  const socket = await firstConnection(addresses, port, signal).catch((error: unknown) => {
    if (error instanceof Error && 'address' in error) trace.reaches(String(error.address));
    throw error;
  });
  trace.leave();
  return { socket, address: socket.remoteAddress ?? addresses[0] ?? '' };
}
