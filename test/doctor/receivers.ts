import { createHmac } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { TlsOptions } from 'node:tls';
import { onTestFinished } from 'vitest';
import { memoryStore, nodeHandler } from '../../src/receiver/index.ts';
import type { ReceiverOptions } from '../../src/receiver/receiver.ts';
import { createAuthority } from '../support/certificates.ts';

export const SECRET = 'a secret of the doctor';
export const root = createAuthority('test root');
export const intermediate = root.intermediate('test intermediate');
const good = root.server({ hosts: ['127.0.0.1'] });

/** A server on this machine for as long as the test, over TLS unless it is to do without. */
export async function served(listener: RequestListener, tls: TlsOptions | 'none' = good): Promise<string> {
  const server = tls === 'none' ? createServer(listener) : createTlsServer(tls, listener);
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return `${tls === 'none' ? 'http' : 'https'}://127.0.0.1:${port}/hooks`;
}

/** The kit, as a merchant mounts it. */
export function kit(options: Partial<ReceiverOptions> = {}): RequestListener {
  const handle = nodeHandler({
    secrets: SECRET,
    handler: () => undefined,
    store: memoryStore(),
    log: () => undefined,
    ...options,
  });
  return (request, response) => void handle(request, response);
}

/** How a receiver that somebody wrote himself goes wrong. */
export interface Slips {
  /** What is verified in place of the raw body. */
  readonly verified?: (body: string) => string;
  readonly secret?: string;
  readonly toleranceSeconds?: number;
  readonly signed?: (timestamp: string, body: string) => string;
  /** Whether a request goes through though its signature is not right. */
  readonly passes?: (request: IncomingMessage) => boolean;
  /** Of what is refused. */
  readonly refusal?: number;
  /** What comes of a genuine event. */
  readonly handle?: (event: Record<string, unknown>, id: string) => number | Promise<number>;
  readonly answer?: (response: ServerResponse, status: number) => void;
  readonly bodyLimit?: number;
}

/** A receiver without the kit: right, but for its slips. */
export function handmade({
  verified = (body) => body,
  secret = SECRET,
  toleranceSeconds = 300,
  signed = (timestamp, body) => `${timestamp}.${body}`,
  passes = () => false,
  refusal = 401,
  handle = () => 200,
  answer = (response, status) => response.writeHead(status).end(status < 300 ? 'thanks' : 'no'),
  bodyLimit = Number.POSITIVE_INFINITY,
}: Slips = {}): RequestListener {
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const raw = await buffer(request);
    if (raw.length > bodyLimit) return answer(response, 413);
    const { 'x-webhook-timestamp': timestamp = '', 'x-webhook-signature': given } = request.headers;
    const text = signed(String(timestamp), verified(raw.toString()));
    const isGenuine = createHmac('sha256', secret).update(text).digest('hex') === given;
    const isRecent = Math.abs(Date.now() / 1_000 - Number(timestamp)) < toleranceSeconds;
    if (!(isGenuine && isRecent) && !passes(request)) return answer(response, refusal);
    const event = JSON.parse(raw.toString()) as Record<string, unknown>;
    answer(response, await handle(event, String(request.headers['x-webhook-id'])));
  };
  return (request, response) => void respond(request, response).catch(() => answer(response, 500));
}
