import { once } from 'node:events';
import http2, { type ClientHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';

const { HTTP2_HEADER_PATH } = http2.constants;
/** Plain HTTP/2 forbids them, and Node adds its own. */
const NOT_FORWARDED = new Set(['connection', 'http2-settings', 'host', 'transfer-encoding', 'date']);

/** Requests by the name of the operation, such as `StartWorkflowExecution`. */
export type RequestCounts = Readonly<Record<string, number>>;

/** Stands before a Temporal server and counts what reaches it, whoever sends it. */
export interface CountingProxy {
  /** Host and port. */
  readonly address: string;
  /** The requests since the start, or since the last {@link reset}. */
  counts(): RequestCounts;
  reset(): void;
  close(): Promise<void>;
}

/** Starts a proxy for gRPC without TLS. */
export async function startCountingProxy(upstream: string): Promise<CountingProxy> {
  const counts = new Map<string, number>();
  const clients = new Set<ClientHttp2Session>();
  const server = http2.createServer();
  server.on('session', (session) => {
    const client = http2.connect(`http://${upstream}`, { settings: { enablePush: false } });
    clients.add(client);
    // Whoever is left notices when its stream or session ends.
    client.on('error', () => session.destroy());
    session.on('error', () => client.destroy());
    session.on('close', () => client.close());
    client.on('close', () => {
      clients.delete(client);
      session.close();
    });
    session.on('stream', (stream, headers) => {
      const operation = String(headers[HTTP2_HEADER_PATH]).split('/').at(-1) ?? '';
      counts.set(operation, (counts.get(operation) ?? 0) + 1);
      forward(stream, headers, client);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts: () => Object.fromEntries(counts),
    reset: () => counts.clear(),
    async close() {
      for (const client of clients) client.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function forward(
  stream: ServerHttp2Stream,
  headers: http2.IncomingHttpHeaders,
  client: ClientHttp2Session,
): void {
  const call = client.request(forwarded(headers), { endStream: false });
  let trailers: http2.OutgoingHttpHeaders | undefined;
  call.on('response', (answer, flags) => {
    if (stream.destroyed) return;
    const endStream = (flags & http2.constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    stream.respond(forwarded(answer), { endStream, waitForTrailers: !endStream });
  });
  call.on('trailers', (received) => (trailers = forwarded(received)));
  stream.on('wantTrailers', () => stream.sendTrailers(trailers ?? {}));
  stream.on('close', () => call.close(stream.rstCode));
  call.on('close', () => {
    if (!stream.closed && call.rstCode !== 0) stream.close(call.rstCode);
  });
  stream.on('error', () => call.destroy());
  call.on('error', () => stream.destroy());
  stream.pipe(call).pipe(stream);
}

function forwarded(headers: http2.IncomingHttpHeaders): http2.OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !NOT_FORWARDED.has(name)));
}
