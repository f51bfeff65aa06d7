import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';

/**
 * A port of `host` that is free now, and that the system gives to nobody else for about a minute (on Linux; elsewhere
 * ports are handed out in turn, which comes to the same).
 */
export async function reserveFreePort(host: string): Promise<number> {
  const listener = createServer();
  listener.listen(0, host);
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  // A connection that the listening side closes first leaves the port in TIME_WAIT: listeners may still bind it, but
  // the system does not pick it for anyone who asks for any port, such as the server itself for its inner services.
  const accepted = once(listener, 'connection') as Promise<[ReturnType<typeof connect>]>;
  const client = connect(port, host);
  const [socket] = await accepted;
  const closed = once(client, 'close');
  client.resume();
  socket.destroy();
  await closed;
  listener.close();
  await once(listener, 'close');
  return port;
}

/** Whether something listens on `port` of `host` already. */
export async function isPortTaken(host: string, port: number): Promise<boolean> {
  const listener = createServer();
  try {
    listener.listen({ host, port, exclusive: true });
    await once(listener, 'listening');
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
  } finally {
    listener.close();
  }
}

/** Whether a TCP connection to `port` of `host` is accepted. */
export async function acceptsConnections(host: string, port: number): Promise<boolean> {
  const socket = connect(port, host);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
