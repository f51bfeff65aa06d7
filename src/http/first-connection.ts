import { connect, type Socket } from 'node:net';

/** RFC 8305: a second address is tried beside the first after this long, milliseconds. */
const NEXT_ADDRESS_AFTER_MS = 250;

/**
 * Connects to the first of several addresses that accepts: they are tried in their order, the next one beside the
 * others after 250 ms or as soon as one has failed. No single address has a limit of its own, since far hosts are slow.
 * @throws the first error once all have failed, or the signal's reason.
 */
export async function firstConnection(
  addresses: readonly string[],
  port: number,
  signal: AbortSignal,
): Promise<Socket> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const left = [...addresses];
  const trying = new Set<Socket>();
  const errors: Error[] = [];
  let timer: NodeJS.Timeout | undefined;
  const tryNext = (): void => {
    clearTimeout(timer);
    const host = left.shift();
    if (host === undefined) return;
    const socket = connect({ host, port, noDelay: true });
    trying.add(socket);
    socket.once('connect', () => resolve(socket));
    socket.on('error', (error) => {
      errors.push(error);
      trying.delete(socket);
      tryNext();
      if (trying.size === 0) reject(errors[0] ?? error);
    });
    timer = setTimeout(tryNext, NEXT_ADDRESS_AFTER_MS);
  };
  const abort = () => reject(signal.reason as Error);
  signal.addEventListener('abort', abort);
  try {
    tryNext();
    const first = await promise;
    trying.delete(first);
    return first;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    left.length = 0;
    for (const socket of trying) socket.destroy();
  }
}
