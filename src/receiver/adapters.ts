import { createReceiver, NoBody, type ReceiverOptions } from './receiver.ts';
import { header, type HeadersLike } from './verify.ts';

const MAX_BODY_BYTES = 1024 * 1024;

/** What of a request of node:http, Express or Next's API routes is used. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Whether somebody has begun to read the stream. */
  readonly readableDidRead?: boolean;
  on(event: string, listener: (chunk: Uint8Array | string) => void): unknown;
  pause(): unknown;
}

/** What of a response of node:http is used. */
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): { end(body: string): unknown };
}

/**
 * For node:http, Express and Next's API routes (with `bodyParser: false`). Bodies that express.raw() or express.text()
 * has read, and a `rawBody` that a platform keeps, are taken as they are.
 */
export function nodeHandler<Tx = undefined>(
  options: ReceiverOptions<Tx>,
): (request: NodeRequest, response: NodeResponse) => Promise<void> {
  const receive = createReceiver(options);
  return async (request, response) => {
    const { method, headers } = request;
    const reply = await receive({ method, headers, body: async () => await nodeBody(request, options) });
    response.writeHead(reply.status, reply.headers).end(reply.body);
  };
}

/** For Express: `app.post('/webhooks', expressHandler(options))`, before `app.use(express.json())`. */
export function expressHandler<Tx = undefined>(options: ReceiverOptions<Tx>): ReturnType<typeof nodeHandler> {
  return nodeHandler(options);
}

/**
 * For everything that speaks `Request` and `Response`: Next route handlers (`export const POST = fetchHandler(options)`),
 * Deno, Bun, Cloudflare Workers.
 */
export function fetchHandler<Tx = undefined>(
  options: ReceiverOptions<Tx>,
): (request: Request) => Promise<Response> {
  const receive = createReceiver(options);
  return async (request) => {
    const { method, headers } = request;
    const reply = await receive({ method, headers, body: async () => await fetchBody(request, options) });
    return new Response(reply.body, reply);
  };
}

/** For Hono: `app.post('/webhooks', honoHandler(options))`. */
export function honoHandler<Tx = undefined>(
  options: ReceiverOptions<Tx>,
): (context: { readonly req: { readonly raw: Request } }) => Promise<Response> {
  const handle = fetchHandler(options);
  return async ({ req }) => await handle(req.raw);
}

interface FastifyScope {
  removeAllContentTypeParsers(): unknown;
  addContentTypeParser(
    contentType: string,
    options: { parseAs: 'buffer' },
    parser: (request: unknown, body: Uint8Array, done: (error: null, body: unknown) => void) => void,
  ): unknown;
  post(
    path: string,
    options: { bodyLimit: number },
    handler: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>,
  ): unknown;
}

interface FastifyRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: unknown;
}

interface FastifyReply {
  code(status: number): { headers(values: Record<string, string>): { send(body: string): unknown } };
}

/**
 * For Fastify: `app.register(fastifyReceiver('/webhooks', options))`. Its parser of raw bodies is in force for this route
 * only; the ones of the app stay as they are.
 */
export function fastifyReceiver<Tx = undefined>(
  path: string,
  options: ReceiverOptions<Tx>,
): (scope: FastifyScope) => Promise<void> {
  const receive = createReceiver(options);
  return async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    const limits = { bodyLimit: options.maxBodyBytes ?? MAX_BODY_BYTES };
    scope.post(path, limits, async ({ method, headers, body }, reply) => {
      const answer = await receive({ method, headers, body: body ?? '' });
      return reply.code(answer.status).headers(answer.headers).send(answer.body);
    });
  };
}

type Limits = Pick<ReceiverOptions, 'maxBodyBytes'>;

/** Whether a body says itself that it is too large, so that it need not be read. */
function saysTooLarge(headers: HeadersLike, { maxBodyBytes = MAX_BODY_BYTES }: Limits): boolean {
  return Number(header(headers, 'content-length') ?? 0) > maxBodyBytes;
}

/** The raw body of a request, or a {@link NoBody}. */
export async function nodeBody(request: NodeRequest, limits: Limits): Promise<unknown> {
  const { rawBody, body } = request as { rawBody?: unknown; body?: unknown };
  for (const kept of [rawBody, body]) if (typeof kept === 'string' || ArrayBuffer.isView(kept)) return kept;
  if (request.readableDidRead) return new NoBody('body-parsed');
  if (saysTooLarge(request.headers, limits)) return new NoBody('body-too-large');
  return await new Promise((resolve) => {
    const chunks = chunksOf(limits);
    request.on('data', (chunk) => {
      if (chunks.add(typeof chunk === 'string' ? new TextEncoder().encode(chunk) : chunk)) return;
      request.pause();
      resolve(new NoBody('body-too-large'));
    });
    request.on('end', () => resolve(chunks.whole()));
    for (const broken of ['error', 'close']) {
      request.on(broken, () => resolve(new NoBody('body-incomplete')));
    }
  });
}

async function fetchBody(request: Request, limits: Limits): Promise<unknown> {
  if (request.bodyUsed || request.body?.locked) return new NoBody('body-parsed');
  if (saysTooLarge(request.headers, limits)) return new NoBody('body-too-large');
  const chunks = chunksOf(limits);
  const reader = request.body?.getReader();
  try {
    for (let read = await reader?.read(); read?.value !== undefined; read = await reader?.read()) {
      if (chunks.add(read.value as Uint8Array)) continue;
      await reader?.cancel();
      return new NoBody('body-too-large');
    }
  } catch {
    return new NoBody('body-incomplete');
  }
  return await chunks.whole();
}

/** Gathers the bytes of a body up to a limit; `add` returns false beyond it. */
function chunksOf({ maxBodyBytes = MAX_BODY_BYTES }: Limits) {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  return {
    add(chunk: Uint8Array): boolean {
      size += chunk.length;
      if (size <= maxBodyBytes) chunks.push(chunk as Uint8Array<ArrayBuffer>);
      return size <= maxBodyBytes;
    },
    whole: async (): Promise<ArrayBuffer> => await new Blob(chunks).arrayBuffer(),
  };
}
