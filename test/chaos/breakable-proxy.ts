import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** Stands between workers, client and server, and can be broken. */
export interface BreakableProxy {
  /** Host and port. */
  readonly address: string;
  /** Resets all connections and takes no new ones. */
  cut(): void;
  /** Lets nothing through any more, without a word. */
  swallow(): void;
  /** As at the start; what was swallowed goes on its way. */
  mend(): void;
  close(): Promise<void>;
}

export async function startBreakableProxy(port: number): Promise<BreakableProxy> {
  const sockets = new Set<Socket>();
  let state: 'whole' | 'cut' | 'swallowing' = 'whole';
  const server = createServer((socket) => {
    if (state === 'cut') {
      socket.resetAndDestroy();
      return;
    }
    const upstream = connect(port, '127.0.0.1');
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      sockets.add(one);
      one.setNoDelay(true);
      one.on('error', () => undefined);
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
      one.on('data', (chunk) => other.write(chunk));
      one.on('end', () => other.end());
      if (state === 'swallowing') one.pause();
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut() {
      state = 'cut';
      for (const socket of sockets) socket.resetAndDestroy();
    },
    swallow() {
      state = 'swallowing';
      for (const socket of sockets) socket.pause();
    },
    mend() {
      state = 'whole';
      for (const socket of sockets) socket.resume();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
