import { connect, type Socket } from 'node:net';
import { mostTelling } from './network-failures.ts';

/** RFC 8305: a second address is tried beside the first after this long, milliseconds. */
const NEXT_ADDRESS_AFTER_MS = 250;

/**
 * Connects to the first of several addresses that accepts: they are tried in their order, the next one beside the
 * others after 250 ms or as soon as one has failed. No single address has a limit of its own, since far hosts are slow.
 * @throws the most telling error once all have failed, or the signal's reason.
 */
export async function firstConnection(
  addresses: readonly string[],
  port: number,
  signal: AbortSignal,
): Promise<Socket> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const left = [...addresses.entries()];
  const trying = new Set<Socket>();
  const errors: Error[] = [];
  let timer: NodeJS.Timeout | undefined;
  const tryNext = (): void => {
    clearTimeout(timer);
    const next = left.shift();
    if (next === undefined) return;
    const [index, host] = next;
    const socket = connect({ host, port, noDelay: true });
    trying.add(socket);
    socket.once('connect', () => resolve(socket));
    socket.on('error', (error) => {
      errors[index] = error;
      trying.delete(socket);
      tryNext();
      if (trying.size === 0) reject(mostTelling(errors) ?? error);
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
