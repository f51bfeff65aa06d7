import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A way to a server that can be closed, with all connections on it, and opened again. */
export interface Way {
  /** The same for good. */
  readonly address: string;
  open(): Promise<void>;
  close(): Promise<void>;
}

/** Opens a way to a server on this machine. */
export async function startWay(target: string): Promise<Way> {
  const [host = '', targetPort = ''] = target.split(':');
  const sockets = new Set<Socket>();
  let port = 0;
  let server: Server | undefined;
  const open = async () => {
    server = createServer((near) => {
      const far = connect(Number(targetPort), host);
      for (const socket of [near, far]) {
        sockets.add(socket);
        socket.on('error', () => undefined);
        socket.on('close', () => {
          sockets.delete(socket);
          near.destroy();
          far.destroy();
        });
      }
      near.pipe(far).pipe(near);
    });
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  };
  await open();
  return {
    address: `127.0.0.1:${port}`,
    open,
    async close() {
      for (const socket of sockets) socket.destroy();
      if (server?.listening) {
        server.close();
        await once(server, 'close');
      }
    },
  };
}
