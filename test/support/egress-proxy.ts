import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect, type AddressInfo, type Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { onTestFinished } from 'vitest';

/** A forward proxy that tunnels by CONNECT, or answers with a status instead, or not at all. */
export interface TestProxy {
  readonly port: number;
  /** The targets that were asked for. */
  readonly targets: string[];
  readonly authorizations: (string | undefined)[];
}

/** Starts a proxy that lives as long as the test. */
export async function testProxy(
  answer: (target: string) => 'tunnel' | 'silent' | 'hang up' | number = () => 'tunnel',
  tls?: TlsOptions,
): Promise<TestProxy> {
  const targets: string[] = [];
  const authorizations: (string | undefined)[] = [];
  const sockets = new Set<Socket>();
  const server = tls === undefined ? createServer() : createTlsServer(tls);
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.on('connect', ({ url = '', headers }: IncomingMessage, client: Socket) => {
    targets.push(url);
    authorizations.push(headers['proxy-authorization']);
    client.on('error', () => undefined);
    const said = answer(url);
    if (said === 'silent') return;
    if (said === 'hang up') {
      client.destroy();
      return;
    }
    if (said !== 'tunnel') {
      client.end(`HTTP/1.1 ${said} No\r\nContent-Length: 0\r\n\r\n`);
      return;
    }
    const [, host = '', port = ''] = /^\[?([^\]]*)\]?:(\d+)$/.exec(url) ?? [];
    const target = connect({ host, port: Number(port) }, () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      client.pipe(target).pipe(client);
    });
    target.on('error', () => client.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'));
    client.on('close', () => target.destroy());
    sockets.add(target);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, targets, authorizations };
}
