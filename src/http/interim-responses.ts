import type { Socket } from 'node:net';
import { ExchangeFailed, tooManyInterim } from './network-failures.ts';

const INTERIM = /^HTTP\/1\.1 1(?!01)\d\d[ \r]/;
/** Enough to tell an interim response from another. */
const STATUS_BYTES = 'HTTP/1.1 1xx '.length;
/** Before one answer. */
const AT_MOST = 16;
const BYTES_AT_MOST = 64 * 1024;

/**
 * Takes interim responses (1xx except 101) out of what is read from a socket. undici gives up at a `100 Continue`
 * that it did not ask for, and RFC 9110 has a client accept it (R4). The socket is destroyed if there are too many.
 * @returns to be called before each request: the next bytes are the start of a response.
 */
export function skipInterimResponses(socket: Socket): () => void {
  let atStart = true;
  let held: Buffer = Buffer.alloc(0);
  let passed = 0;
  let passedBytes = 0;
  const read = socket.read.bind(socket);
  socket.read = (size?: number): Buffer | null => {
    const chunk = read(size) as Buffer | null;
    if (!atStart || chunk === null) return chunk;
    held = Buffer.concat([held, chunk]);
    for (;;) {
      if (held.length < STATUS_BYTES && mayBecomeInterim(held)) return null;
      if (!INTERIM.test(held.toString('latin1', 0, STATUS_BYTES))) break;
      const end = held.indexOf('\r\n\r\n');
      const length = end === -1 ? held.length : end + 4;
      if (passed >= AT_MOST || passedBytes + length > BYTES_AT_MOST) {
        socket.destroy(new ExchangeFailed(tooManyInterim()));
        return null;
      }
      if (end === -1) return null;
      passed += 1;
      passedBytes += length;
      held = held.subarray(length);
    }
    atStart = false;
    const rest = held;
    held = Buffer.alloc(0);
    return rest;
  };
  return () => {
    atStart = true;
    held = Buffer.alloc(0);
    passed = 0;
    passedBytes = 0;
  };
}

function mayBecomeInterim(bytes: Buffer): boolean {
  return 'HTTP/1.1 1'.startsWith(bytes.toString('latin1', 0, 10));
}
