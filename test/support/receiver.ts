import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request as a receiver saw it. */
export interface Received {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  /** Names and values in turn, as they were written. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  readonly at: number;
}

/** How a receiver answers one request; `network` closes the connection, `timeout` never answers. */
export type Answer =
  | number
  | 'network'
  | 'timeout'
  | {
      readonly status: number;
      readonly headers?: Record<string, string>;
      readonly body?: string;
      /** Milliseconds until it answers; 0 by default. */
      readonly afterMs?: number;
    };

/** A webhook receiver on a real socket, answering by script. */
export interface Receiver {
  readonly url: string;
  readonly received: Received[];
  /** Replaces the script: given the n-th request (from 0) of its path, how to answer it. */
  answer(script: (nth: number, request: Received) => Answer): void;
  /** Keeps every answer back until the promise resolves. */
  hold(until: Promise<void>): void;
  close(): Promise<void>;
}

/** Starts a receiver that answers 200 until told otherwise. */
export async function startReceiver(
  script: (nth: number, request: Received) => Answer = () => 200,
  port = 0,
): Promise<Receiver> {
  const received: Received[] = [];
  let current = script;
  let held: Promise<void> = Promise.resolve();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const path = request.url ?? '/';
      const { headers, rawHeaders } = request;
      const seen: Received = { path, headers, rawHeaders, body: Buffer.concat(chunks), at: Date.now() };
      const nth = received.filter((other) => other.path === path).length;
      received.push(seen);
      void held.then(() => reply(response, current(nth, seen)));
    });
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const { port: taken } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${taken}/`,
    received,
    answer(next) {
      current = next;
    },
    hold(until) {
      held = until;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function reply(response: ServerResponse, answer: Answer): void {
  if (answer === 'timeout') return;
  if (answer === 'network') {
    response.socket?.resetAndDestroy();
    return;
  }
  const {
    status,
    headers = {},
    body = '',
    afterMs = 0,
  } = typeof answer === 'number' ? { status: answer } : answer;
  if (afterMs > 0) {
    setTimeout(() => reply(response, { status, headers, body }), afterMs);
    return;
  }
  if (status === 101 || status >= 600) {
    // Node refuses to write what is no final status: write the bytes.
    response.socket?.end(`HTTP/1.1 ${status} Odd\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
    return;
  }
  response.writeHead(status, headers).end(body);
}
