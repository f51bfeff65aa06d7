import type { Socket } from 'node:net';

const INTERIM = /^HTTP\/1\.1 1(?!01)\d\d[ \r]/;
/** Enough to tell an interim response from another. */
const STATUS_BYTES = 'HTTP/1.1 1xx '.length;
/** No interim response is longer. */
const HEAD_BYTES = 16 * 1024;

/**
 * Takes interim responses (1xx except 101) out of what is read from a socket. undici gives up at a `100 Continue`
 * that it did not ask for, and RFC 9110 has a client accept it (R4).
 * @returns to be called before each request: the next bytes are the start of a response.
 */
export function skipInterimResponses(socket: Socket): () => void {
  let atStart = true;
  let held: Buffer = Buffer.alloc(0);
  const read = socket.read.bind(socket);
  socket.read = (size?: number): Buffer | null => {
    const chunk = read(size) as Buffer | null;
    if (!atStart || chunk === null) return chunk;
    held = Buffer.concat([held, chunk]);
    for (;;) {
      if (held.length < STATUS_BYTES && mayBecomeInterim(held)) return null;
      if (!INTERIM.test(held.toString('latin1', 0, STATUS_BYTES))) break;
      const end = held.indexOf('\r\n\r\n');
      if (end === -1 && held.length < HEAD_BYTES) return null;
      if (end === -1) break;
      held = held.subarray(end + 4);
    }
    atStart = false;
    const rest = held;
    held = Buffer.alloc(0);
    return rest;
  };
  return () => {
    atStart = true;
    held = Buffer.alloc(0);
  };
}

function mayBecomeInterim(bytes: Buffer): boolean {
  return 'HTTP/1.1 1'.startsWith(bytes.toString('latin1', 0, 10));
}
