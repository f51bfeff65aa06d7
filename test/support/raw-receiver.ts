import { createServer, type AddressInfo, type Socket } from 'node:net';

/** A TCP server that writes scripted bytes after the first request has come in whole. */
export interface RawReceiver {
  readonly url: string;
  /** How many requests came in, by their request lines. */
  requests(): number;
  /** Sockets that are open now. */
  open(): number;
  close(): Promise<void>;
}

/** Starts a receiver whose script is given each socket once a request is in. */
export async function startRawReceiver(script: (socket: Socket) => void): Promise<RawReceiver> {
  let requests = 0;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    let seen = '';
    socket.on('data', (chunk) => {
      seen += chunk.toString('latin1');
      if (!/\r\n\r\n[^]*\}$/.test(seen)) return;
      seen = '';
      requests += 1;
      script(socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks?x=1`,
    requests: () => requests,
    open: () => sockets.size,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
