import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { Readable } from 'node:stream';
import { Client, type Dispatcher } from 'undici';
import type { Connected } from './connector.ts';
import { skipInterimResponses } from './interim-responses.ts';
import { clientCertificateWanted, ClosedBeforeUse } from './network-failures.ts';

/** An idle connection is kept this long, milliseconds, if the server does not say how long it keeps it. */
const IDLE_MS = 4_000;
/** Whatever the server says. */
const IDLE_AT_MOST_MS = 30_000;
/** Old connections are not used again, so that changes of DNS and certificates take effect. */
const AGE_AT_MOST_MS = 60_000;
const HEADERS_AT_MOST_BYTES = 16 * 1024;
/** How many connections that no attempt is using may be open in this process. */
const KEPT_AT_MOST = 256;

/** One connection: a checked socket and the undici client that speaks HTTP on it, and never opens another. */
export class OpenConnection {
  readonly origin: string;
  readonly address: string;
  private readonly openedAt = performance.now();
  private readonly client: Client;
  private readonly beforeRequest: () => void;
  /** Until undici takes it. */
  private unused: Socket | undefined;
  private firstError: unknown;

  constructor(origin: string, { socket, address }: Connected, whenClosed: () => void) {
    this.origin = origin;
    this.address = address;
    this.beforeRequest = skipInterimResponses(socket);
    this.unused = socket;
    socket.on('error', (error) => (this.firstError ??= error));
    this.client = new Client(origin, {
      connect: (_options, callback) => {
        const given = this.unused;
        this.unused = undefined;
        // undici does not go on if it is called back before this returns.
        queueMicrotask(() => {
          if (given === undefined || given.destroyed) callback(new ClosedBeforeUse(), null);
          else callback(null, given);
        });
      },
      keepAliveTimeout: IDLE_MS,
      keepAliveMaxTimeout: IDLE_AT_MOST_MS,
      maxHeaderSize: HEADERS_AT_MOST_BYTES,
      // The signal bounds the exchange; undici's own timers would only bound parts of it.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    this.client.once('disconnect', whenClosed);
  }

  /**
   * @throws {@link ClosedBeforeUse} if nothing was written because the other side has closed the connection,
   * `ExchangeFailed` if it wanted a client certificate, or errors of undici and sockets.
   */
  async request(options: Omit<Dispatcher.RequestOptions, 'origin'>): Promise<Dispatcher.ResponseData> {
    this.beforeRequest();
    try {
      return await this.client.request(options);
    } catch (error) {
      // In TLS 1.3 a server tells only after the handshake, and undici tells of the end that follows.
      throw clientCertificateWanted(this.firstError) ?? error;
    }
  }

  isYoung(): boolean {
    return performance.now() - this.openedAt < AGE_AT_MOST_MS;
  }

  close(): void {
    this.unused?.destroy();
    void this.client.destroy();
  }
}

/**
 * Connections beyond their first exchange: between two attempts they are kept, first until the response is read to
 * its end, then until the next attempt.
 */
export class Connections {
  /** Whether each is ready for another attempt; the one kept longest comes first. */
  private readonly kept = new Map<OpenConnection, boolean>();

  /** Takes the connection to an origin that was used last. */
  take(origin: string): OpenConnection | undefined {
    let latest: OpenConnection | undefined;
    for (const [connection, isReady] of this.kept) {
      if (isReady && connection.origin === origin && connection.isYoung()) latest = connection;
    }
    if (latest !== undefined) this.kept.delete(latest);
    return latest;
  }

  /** A new one, in use. */
  opened(origin: string, connected: Connected): OpenConnection {
    const connection = new OpenConnection(origin, connected, () => this.kept.delete(connection));
    return connection;
  }

  /** Keeps a connection whose response headers are in. The one kept longest is closed if there are too many. */
  keep(connection: OpenConnection, body: Readable): void {
    this.kept.set(connection, false);
    body.once('end', () => {
      if (this.kept.has(connection)) this.kept.set(connection, true);
    });
    const [oldest] = this.kept.keys();
    if (this.kept.size > KEPT_AT_MOST && oldest !== undefined) this.close(oldest);
  }

  closeKept(): void {
    for (const connection of this.kept.keys()) this.close(connection);
  }

  private close(connection: OpenConnection): void {
    this.kept.delete(connection);
    connection.close();
  }
}
