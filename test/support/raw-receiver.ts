import { createServer, type AddressInfo, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';

/** A TCP or TLS server that writes scripted bytes after the first request has come in whole. */
export interface RawReceiver {
  readonly url: string;
  readonly port: number;
  /** How many requests came in, by their request lines. */
  readonly requests: () => number;
  /** All bytes of the requests, in order. */
  readonly received: () => Buffer;
  /** How many connections came in. */
  readonly connections: () => number;
  /** Sockets that are open now. */
  readonly open: () => number;
  readonly close: () => Promise<void>;
}

export interface RawReceiverOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string;
  /** Default: any free one. */
  readonly port?: number;
  /** Speaks TLS. */
  readonly tls?: TlsOptions;
}

/** Starts a receiver whose script is given each socket once a request is in. */
export async function startRawReceiver(
  script: (socket: Socket) => void,
  { host = '127.0.0.1', port = 0, tls }: RawReceiverOptions = {},
): Promise<RawReceiver> {
  let requests = 0;
  let connections = 0;
  const received: Buffer[] = [];
  const sockets = new Set<Socket>();
  const serve = (socket: Socket): void => {
    let seen = '';
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      received.push(chunk);
      seen += chunk.toString('latin1');
      if (!/\r\n\r\n[^]*\}\s*$/.test(seen)) return;
      seen = '';
      requests += 1;
      script(socket);
    });
  };
  const server = tls === undefined ? createServer(serve) : createTlsServer(tls, serve);
  server.on('connection', (socket: Socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
  });
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const taken = (server.address() as AddressInfo).port;
  const name = host.includes(':') ? `[${host}]` : host;
  return {
    url: `${tls === undefined ? 'http' : 'https'}://${name}:${taken}/hooks?x=1`,
    port: taken,
    requests: () => requests,
    received: () => Buffer.concat(received),
    connections: () => connections,
    open: () => sockets.size,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
