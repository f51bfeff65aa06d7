import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Payload, PayloadCodec } from '@temporalio/common';
import proto from '@temporalio/proto';
import { EncryptionKeyError } from '../errors.ts';
import type { Access } from './access.ts';

const { Payload: PayloadMessage, Payloads } = proto.temporal.api.common.v1;

/** What was done or refused, for the log; never what was in it. */
export interface CodecRequest {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** Why it was refused. */
  readonly message?: string;
  readonly who?: string;
  readonly namespace?: string;
  readonly payloads?: number;
}

export interface CodecServerOptions {
  readonly codec: PayloadCodec;
  readonly access: Access;
  /** Address to listen on. */
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Exact origins of the pages that may ask, such as `https://temporal.example`; may grow while it runs. */
  readonly origins: ReadonlySet<string>;
  /** Names and addresses that it may be called by, without a port; any if there are none. */
  readonly hosts: ReadonlySet<string>;
  /** Told of every request but those for health. */
  readonly onRequest?: (request: CodecRequest) => void;
}

/** Encodes and decodes payloads for the Temporal UI and CLI. */
export interface CodecServer {
  readonly url: string;
  close(): Promise<void>;
}

/** A page of a history: an event has at most 2 MB of payloads, and base64 makes a third more. */
const LARGEST_BODY = 32 * 1024 * 1024;
const ALLOWED_HEADERS = 'authorization, authorization-extras, content-type, x-namespace';
const PREFLIGHT_SECONDS = 600;
/** For a whole request, milliseconds. */
const REQUEST_WITHIN_MS = 30_000;

/** A request that is refused. */
class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * Starts a server of Temporal's remote codec protocol: `POST …/decode` and `POST …/encode` take and give
 * `{"payloads": […]}` as protobuf's JSON. `GET /health` answers 200 while there is a key to encrypt with.
 */
export async function startCodecServer(options: CodecServerOptions): Promise<CodecServer> {
  const server = createServer({ requestTimeout: REQUEST_WITHIN_MS }, (request, response) => {
    void answer(request, response, options);
  });
  server.listen(options.port, options.host);
  await once(server, 'listening');
  const { address, family, port } = server.address() as AddressInfo;
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: CodecServerOptions,
): Promise<void> {
  const { method = '', headers } = request;
  const [pathname = '/'] = (request.url ?? '/').split('?');
  const done: { who?: string; payloads?: number } = {};
  const end = (status: number, body: unknown, message?: string): void => {
    response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
    response.end(JSON.stringify(body));
    const namespace = headers['x-namespace']?.slice(0, 100);
    if (pathname !== '/health') {
      options.onRequest?.({
        method,
        path: pathname.slice(0, 100),
        status,
        ...(message === undefined ? {} : { message }),
        ...(typeof namespace === 'string' ? { namespace } : {}),
        ...done,
      });
    }
  };
  try {
    if (pathname === '/health' && (method === 'GET' || method === 'HEAD')) {
      await options.codec.encode([{}]);
      return end(200, { status: 'ok' });
    }
    mustBeCalledByName(headers.host, options.hosts);
    allowOrigin(request, response, options.origins);
    if (method === 'OPTIONS') return void response.writeHead(204).end();
    const convert = converterFor(method, pathname, options.codec);
    const who = await options.access(headers.authorization);
    if (who === undefined) {
      response.setHeader('www-authenticate', 'Bearer');
      throw new Refusal(401, 'a valid bearer token is needed');
    }
    done.who = who;
    const payloads = payloadsOf(await readBody(request));
    done.payloads = payloads.length;
    const converted = await convert(payloads);
    end(200, { payloads: converted.map((each) => asJson(each)) });
  } catch (error) {
    const { status, message } = refusalOf(error);
    // What is left of the body is not read: the connection is of no further use.
    if (!request.complete) response.setHeader('connection', 'close');
    end(status, { message }, message);
  }
}

function refusalOf(error: unknown): { readonly status: number; readonly message: string } {
  if (error instanceof Refusal) return error;
  if (error instanceof EncryptionKeyError) return { status: 503, message: error.message };
  // Whatever else it is, its message might hold what was decoded.
  return { status: 500, message: 'the payloads could not be converted' };
}

/** A name that an attacker points here (DNS rebinding) is none of ours. */
function mustBeCalledByName(host: string | undefined, hosts: ReadonlySet<string>): void {
  const name = host?.replace(/:\d+$/, '').toLowerCase();
  if (hosts.size > 0 && (name === undefined || !hosts.has(name))) {
    throw new Refusal(
      421,
      'this server is not called by that name: HOOKLADDER_CODEC_HOSTS has those that it is',
    );
  }
}

/** CORS. A request without an origin comes from no page: the CLI sends none. */
function allowOrigin(
  { headers }: IncomingMessage,
  response: ServerResponse,
  origins: ReadonlySet<string>,
): void {
  const { origin } = headers;
  response.setHeader('vary', 'origin');
  if (origin === undefined) return;
  if (!origins.has(origin)) {
    throw new Refusal(403, 'pages of that origin may not ask: HOOKLADDER_CODEC_ORIGINS has those that may');
  }
  response.setHeader('access-control-allow-origin', origin);
  response.setHeader('access-control-allow-credentials', 'true');
  if (headers['access-control-request-method'] === undefined) return;
  response.setHeader('access-control-allow-methods', 'POST');
  response.setHeader('access-control-allow-headers', ALLOWED_HEADERS);
  response.setHeader('access-control-max-age', PREFLIGHT_SECONDS);
  if (headers['access-control-request-private-network'] === 'true') {
    response.setHeader('access-control-allow-private-network', 'true');
  }
}

/** By the end of the path only, so that it may be mounted at any depth. */
function converterFor(method: string, path: string, codec: PayloadCodec): PayloadCodec['decode'] {
  const action = path.split('/').at(-1);
  if (action !== 'decode' && action !== 'encode') {
    throw new Refusal(404, 'there are POST /decode, POST /encode and GET /health only');
  }
  if (method !== 'POST') throw new Refusal(405, `/${action} takes POST only`);
  return async (payloads) => await codec[action](payloads);
}

async function readBody(request: IncomingMessage): Promise<string> {
  if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) {
    throw new Refusal(415, 'the content type must be application/json');
  }
  if (Number(request.headers['content-length'] ?? 0) > LARGEST_BODY) throw tooLarge();
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    const part = chunk as Buffer;
    bytes += part.length;
    if (bytes > LARGEST_BODY) throw tooLarge();
    chunks.push(part);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function tooLarge(): Refusal {
  return new Refusal(413, `a request must have at most ${LARGEST_BODY} bytes`);
}

function payloadsOf(body: string) {
  try {
    const json: unknown = JSON.parse(body);
    if (typeof json !== 'object' || json === null || Array.isArray(json)) throw new TypeError('no object');
    // Without payloads, protobuf writes none.
    return Payloads.fromObject(json).payloads;
  } catch {
    throw new Refusal(400, 'the body must be {"payloads": […]}, each with metadata and data in base64');
  }
}

/** As protobuf writes it. */
function asJson(payload: Payload): object {
  return PayloadMessage.toObject(PayloadMessage.fromObject(payload), { bytes: String, longs: String });
}
