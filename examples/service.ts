/**
 * A payment service that hands its webhooks to hookladder and tells where they are.
 *
 *   POST /payments/:id/paid              {"merchantId": "shop-42", "amount": "10.50", "currency": "EUR"}
 *   GET  /webhooks/:merchant/:id
 *   PUT  /merchants/:merchant/endpoint   {"url": "https://…", "secret": "…", "headers": {"Authorization": "…"}}
 *   POST /merchants/:merchant/rotation   {"secret": "…", "keepOldFor": "7 days"}
 *
 * From the environment: PORT, 3000 by default; ALLOW_HTTP=1 and HOOKLADDER_ALLOWED_NETWORKS=127.0.0.0/8 for receivers
 * on this machine; TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and so on; HOOKLADDER_SECRET_KEYS_FILE with the keys that seal
 * merchants' secrets and HOOKLADDER_ENCRYPTION_KEYS_FILE with those that encrypt payloads, the same files that the workers
 * have.
 */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
// 'hookladder' when installed
import {
  Hookladder,
  HookladderError,
  SecretKeyError,
  type EndpointSettings,
  type RotationOptions,
} from '../src/client.ts';

interface Payment {
  readonly merchantId: string;
  readonly amount: string;
  readonly currency: string;
}

interface Reply {
  readonly status: number;
  readonly body: unknown;
}

/** Whoever pays does not wait longer than this for Temporal. */
const hooks = new Hookladder({ connectTimeoutMs: 3_000, allowHttp: process.env['ALLOW_HTTP'] === '1' });

/**
 * The webhook's id follows from the event, its body from the payment. So this may be called again after any
 * failure: what was handed over is not handed over twice.
 */
async function paymentPaid(paymentId: string, { merchantId, amount, currency }: Payment): Promise<Reply> {
  const { webhookId, started, existing } = await hooks.deliver({
    merchantId,
    webhookId: `${paymentId}-paid`,
    type: 'payment.status_changed',
    paymentId,
    body: JSON.stringify({ paymentId, status: 'paid', amount, currency }),
  });
  return { status: 202, body: { webhookId, started, existing } };
}

async function route(request: IncomingMessage): Promise<Reply> {
  const [, collection, first = '', second = ''] = request.url?.split('/') ?? [];
  switch (`${request.method} ${collection}`) {
    case 'POST payments':
      if (second === 'paid') return await paymentPaid(first, await jsonObject<Payment>(request));
      break;
    case 'GET webhooks':
      return { status: 200, body: await hooks.delivery(first, second).status() };
    case 'PUT merchants':
      if (second !== 'endpoint') break;
      return {
        status: 200,
        body: await hooks.merchant(first).setEndpoint(await jsonObject<EndpointSettings>(request)),
      };
    case 'POST merchants': {
      if (second !== 'rotation') break;
      const { secret, ...options } = await jsonObject<RotationOptions & { secret: string }>(request);
      return { status: 200, body: await hooks.merchant(first).rotateSecret(secret, options) };
    }
  }
  return { status: 404, body: { message: 'there is no such resource' } };
}

/** Its fields are not checked here: the client checks all that it is given. */
async function jsonObject<T extends object>(request: IncomingMessage): Promise<T> {
  const value: unknown = JSON.parse(await text(request));
  if (typeof value !== 'object' || value === null) throw new SyntaxError('give a JSON object');
  return value as T;
}

/** The codes are stable. One that is not here is a fault of our own. */
const statusOf: Record<string, number> = {
  INVALID_WEBHOOK: 400,
  INVALID_ENDPOINT: 400,
  DELIVERY_NOT_FOUND: 404,
  MERCHANT_NOT_FOUND: 404,
  ID_CONFLICT: 409,
  NO_ENDPOINT: 409,
  NO_WORKER: 503,
  TEMPORAL_UNAVAILABLE: 503,
};

function replyTo(error: unknown): Reply {
  if (error instanceof SyntaxError) return { status: 400, body: { message: error.message } };
  if (error instanceof HookladderError || error instanceof SecretKeyError) {
    return { status: statusOf[error.code] ?? 500, body: { code: error.code, message: error.message } };
  }
  console.error(error);
  return { status: 500, body: { message: 'internal error' } };
}

const server = createServer((request, response) => {
  void (async () => {
    const { status, body } = await route(request).catch(replyTo);
    response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
  })();
});
server.once('error', (error) => {
  console.error(`cannot listen: ${error.message}`);
  process.exit(1);
});
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});

/** Requests under way are answered before the connection to Temporal is closed. */
const stop = () => server.close(() => void hooks.close());
process.once('SIGTERM', stop);
process.once('SIGINT', stop);
