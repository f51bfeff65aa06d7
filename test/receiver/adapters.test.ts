import { once as event } from 'node:events';
import { createServer, request as httpRequest, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener, serve } from '@hono/node-server';
import express from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Sender } from '../../src/http/sender.ts';
import {
  createReceiver,
  expressHandler,
  fastifyReceiver,
  fetchHandler,
  honoHandler,
  nodeHandler,
  RetryLater,
  type LogEntry,
  type ReceiverOptions,
  type WebhookEvent,
} from '../../src/receiver/index.ts';
import { postTo, senderFor } from '../support/posting.ts';
import { expectAnswer, headersOf, OLD_SECRET, paid, rightAnswers, SECRET, send } from './wire.ts';

let logged: LogEntry[];
let closers: (() => unknown)[];
let sender: Sender;

beforeAll(() => {
  logged = [];
  closers = [];
});
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
  logged.length = 0;
});

function handler(webhook: WebhookEvent): void {
  if (webhook.type !== 'payment.status_changed') return;
  if ((webhook.data as { payment_id?: unknown }).payment_id === undefined) throw new Error('no payment_id');
}

const options = (more: Partial<ReceiverOptions> = {}): ReceiverOptions => ({
  secrets: [SECRET, OLD_SECRET],
  handler,
  log: (entry) => logged.push(entry),
  ...more,
});

async function listening(listener: (...both: Parameters<RequestListener>) => unknown): Promise<string> {
  const server = createServer((request, response) => void listener(request, response));
  server.listen(0, '127.0.0.1');
  await event(server, 'listening');
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks`;
}

const servers: Record<string, (given: ReceiverOptions) => Promise<string>> = {
  'node:http': async (given) => {
    const handle = nodeHandler(given);
    return await listening((request, response) => void handle(request, response));
  },
  Express: async (given) => {
    const app = express();
    app.post('/webhooks', expressHandler(given));
    app.use(express.json());
    return await listening(app);
  },
  'Express with express.raw()': async (given) => {
    const app = express();
    app.use(express.raw({ type: '*/*' }));
    app.post('/webhooks', expressHandler(given));
    return await listening(app);
  },
  'Express with a rawBody that is kept': async (given) => {
    const app = express();
    app.use(
      express.json({ strict: false, verify: (request, _, raw) => Object.assign(request, { rawBody: raw }) }),
    );
    app.post('/webhooks', expressHandler(given));
    return await listening(app);
  },
  Fastify: async (given) => {
    const app = Fastify();
    app.post('/other', (request, reply) => reply.send({ parsed: request.body }));
    await app.register(fastifyReceiver('/webhooks', given));
    closers.push(async () => await app.close());
    return `${await app.listen({ port: 0, host: '127.0.0.1' })}/webhooks`;
  },
  Hono: async (given) => {
    const app = new Hono();
    app.post('/webhooks', honoHandler(given));
    const { promise, resolve } = Promise.withResolvers<number>();
    const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => resolve(port));
    closers.push(() => server.close());
    return `http://127.0.0.1:${await promise}/webhooks`;
  },
  'a Next route handler': async (given) => {
    const POST = fetchHandler(given);
    return await listening(getRequestListener(POST));
  },
};

describe.each(Object.entries(servers))('%s', (_, start) => {
  test.each(Object.entries(rightAnswers))('%s', async (_name, check) => {
    sender = senderFor();
    await check(await start(options()), sender, {});
  });

  test('R71 a body that is too large is refused, also one that does not say its length', async () => {
    sender = senderFor();
    const url = await start(options({ maxBodyBytes: 1_000 }));
    const body = JSON.stringify('x'.repeat(300_000));
    expect(await send(url, sender, { body })).toMatchObject({ status: 413 });
    expect(await chunked(url, body)).toBe(413);
    await expectAnswer(send(url, sender), 200, 'handled');
  });
});

/** Without a Content-Length. */
async function chunked(url: string, body: string): Promise<number | undefined> {
  const request = httpRequest(url, { method: 'POST', headers: headersOf({ body }) });
  request.on('error', () => undefined);
  request.write(body);
  request.end();
  const [response] = await event(request, 'response');
  response.resume();
  return response.statusCode;
}

describe('a raw body that is gone is told as what it is', () => {
  const tooEarly: Record<string, (given: ReceiverOptions) => Promise<string>> = {
    'express.json() before': async (given) => {
      const app = express();
      app.use(express.json());
      app.post('/webhooks', expressHandler(given));
      return await listening(app);
    },
    'a stream that was read': async (given) =>
      await listening((request, response) => {
        request.resume().on('end', () => void nodeHandler(given)(request, response));
      }),
    'request.json() before': async (given) =>
      await listening(
        getRequestListener(async (request) => {
          await request.json();
          return await fetchHandler(given)(request);
        }),
      ),
    'a middleware of Hono': async (given) => {
      const app = new Hono();
      app.use(async (context, next) => {
        await context.req.json();
        await next();
      });
      app.post('/webhooks', honoHandler(given));
      return await listening(getRequestListener(app.fetch));
    },
  };
  test.each(Object.entries(tooEarly))('%s: 500, so that nothing is lost', async (_, start) => {
    sender = senderFor();
    const url = await start(options());
    await expectAnswer(send(url, sender), 500, '{"error":"body-parsed"}');
    expect(logged).toMatchObject([
      {
        outcome: 'refused',
        status: 500,
        problem: { code: 'body-parsed', remedy: expect.stringContaining('express.json()') },
      },
    ]);
  });
});

describe('answers', () => {
  const receive = (more: Partial<ReceiverOptions> = {}) => createReceiver(options(more));
  const ask = async (
    receiver: ReturnType<typeof receive>,
    {
      body = paid(),
      ...sent
    }: { id?: string; body?: string; secret?: string; headers?: Record<string, undefined> } = {},
  ) => await receiver({ headers: headersOf({ body, ...sent }), body });

  test('R1 2xx comes after the handler, not before', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    let isAnswered = false;
    const answer = ask(receive({ handler: () => promise })).finally(() => (isAnswered = true));
    await new Promise((next) => setTimeout(next, 20));
    expect(isAnswered).toBe(false);
    resolve();
    expect(await answer).toMatchObject({ status: 200, body: '{"outcome":"handled"}' });
  });

  test('R2 R12 faults are 5xx; RetryLater says when', async () => {
    const fail = (why: unknown) => async () => await Promise.reject(why);
    expect(await ask(receive({ handler: fail(new Error('no')) }))).toMatchObject({ status: 500 });
    expect(await ask(receive({ handler: fail(undefined) }))).toMatchObject({ status: 500 });
    const later = await ask(receive({ handler: fail(new RetryLater(90.5)) }));
    expect(later).toMatchObject({ status: 503, headers: { 'retry-after': '91' } });
    const store = { claim: fail(new Error('the database is away')) };
    expect(await ask(receive({ store }))).toMatchObject({ status: 500, entry: { outcome: 'failed' } });
    const secrets = async () => await Promise.reject(new Error('no vault'));
    expect(await ask(receive({ secrets }))).toMatchObject({ status: 500, entry: { outcome: 'failed' } });
  });

  test('R3 while another is at it the answer is 503, never 4xx, which would end the delivery', async () => {
    const busy = { claim: async () => 'busy' as const };
    expect(await ask(receive({ store: busy }))).toMatchObject({
      status: 503,
      headers: { 'retry-after': '1' },
      entry: { outcome: 'busy' },
    });
  });

  test('R63 secrets are asked for at each request', async () => {
    let secrets = ['a secret before the rotation'];
    const receiver = receive({ secrets: () => secrets });
    expect(await ask(receiver)).toMatchObject({ status: 401 });
    secrets = [SECRET];
    expect(await ask(receiver)).toMatchObject({ status: 200 });
  });

  test('a key of its own: a payment and its status', async () => {
    const key = ({ data }: WebhookEvent) => {
      const { payment_id, status } = data as Record<string, unknown>;
      return `${String(payment_id)} ${String(status)}`;
    };
    const receiver = receive({ key });
    expect(await ask(receiver, { id: 'a' })).toMatchObject({ entry: { outcome: 'handled' } });
    expect(await ask(receiver, { id: 'b' })).toMatchObject({ entry: { outcome: 'duplicate' } });
  });

  test('what is no POST is answered 405', async () => {
    const receiver = receive();
    expect(await receiver({ method: 'GET', headers: {}, body: '' })).toMatchObject({
      status: 405,
      headers: { allow: 'POST' },
    });
  });

  test('each request is logged once, without body and secret; a log that fails changes nothing', async () => {
    const receiver = receive();
    await ask(receiver, { id: 'evt_1' });
    await ask(receiver, { secret: 'a forger of more than 16' });
    await ask(receiver, { body: '{"event":"payment.status_changed"}' });
    expect(logged).toMatchObject([
      { outcome: 'handled', status: 200, id: 'evt_1', type: 'payment.status_changed', attempt: 1 },
      { outcome: 'refused', status: 401, problem: { code: 'wrong-signature' } },
      { outcome: 'failed', status: 500, error: new Error('no payment_id') },
    ]);
    expect(JSON.stringify(logged)).not.toMatch(/pay_1|секрет/);
    const failing = receive({
      log: () => {
        throw new Error('the disk is full');
      },
    });
    expect(await ask(failing)).toMatchObject({ status: 200 });
  });
});

describe('probes', () => {
  const seen: WebhookEvent[] = [];
  const receiver = createReceiver(options({ handler: (webhook) => seen.push(webhook) }));
  const ask = async (probe: unknown, { id = 'probe_1', secret = SECRET } = {}) => {
    const body = JSON.stringify({ type: 'webhook.probe', probe });
    const {
      status,
      body: text,
      headers,
    } = await receiver({ headers: headersOf({ id, body, secret }), body });
    return { status, headers, ...(JSON.parse(text) as object) };
  };

  test('echo tells that the kit is there, what it verified, and its clock', async () => {
    expect(await ask('echo')).toMatchObject({
      status: 200,
      receiver: 'hookladder/1',
      probe: 'echo',
      id: 'probe_1',
      families: ['x-webhook', 'standard'],
      bodyBytes: 39,
      skewSeconds: expect.toSatisfy((skew: number) => Math.abs(skew) <= 30),
    });
  });

  test('R2 temporary-fault is answered as a handler that fails, and leaves the id free', async () => {
    expect(await ask('temporary-fault', { id: 'probe_2' })).toMatchObject({
      status: 500,
      probe: 'temporary-fault',
    });
    expect(await ask('dedup', { id: 'probe_2' })).toMatchObject({
      status: 200,
      outcome: 'handled',
      handled: 1,
    });
  });

  test('R64 dedup tells how often an id was handled, and by which store', async () => {
    expect(await ask('dedup', { id: 'probe_3' })).toMatchObject({
      outcome: 'handled',
      handled: 1,
      store: 'memory',
    });
    expect(await ask('dedup', { id: 'probe_3' })).toMatchObject({ outcome: 'duplicate', handled: 1 });
    const forgetful = createReceiver(
      options({
        store: { claim: async () => ({ tx: undefined, done: () => undefined, release: () => undefined }) },
      }),
    );
    const body = '{"type":"webhook.probe","probe":"dedup"}';
    for (const handled of [1, 2]) {
      const { body: text } = await forgetful({ headers: headersOf({ id: 'a', body }), body });
      expect(JSON.parse(text)).toMatchObject({ outcome: 'handled', handled, store: 'given' });
    }
  });

  test.each([undefined, 'reboot', 7, {}])(
    'a probe that is not known (%j) is answered 200 and does nothing',
    async (probe) => {
      expect(await ask(probe)).toMatchObject({ status: 200, receiver: 'hookladder/1', probe: 'unknown' });
    },
  );

  test('without a right signature a probe is nothing, and no handler ever sees one', async () => {
    for (const probe of ['echo', 'temporary-fault', 'dedup']) {
      expect(await ask(probe, { secret: 'a forger of more than 16' })).toEqual({
        status: 401,
        headers: { 'content-type': 'application/json' },
        error: 'wrong-signature',
      });
    }
    expect(seen).toEqual([]);
    expect(logged.filter(({ outcome }) => outcome === 'probe')).toEqual([]);
  });
});

test('Fastify: other routes keep their parsers', async () => {
  const url = await servers['Fastify']?.(options());
  const response = await fetch(url?.replace('webhooks', 'other') ?? '', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"a":1}',
  });
  expect(await response.json()).toEqual({ parsed: { a: 1 } });
});

test('a connection that breaks in the middle of a body does no harm', async () => {
  sender = senderFor();
  const url = await listening((request, response) => void nodeHandler(options())(request, response));
  const request = httpRequest(url, { method: 'POST', headers: { 'content-length': '100' } });
  request.on('error', () => undefined);
  request.write('half');
  await new Promise((next) => setTimeout(next, 50));
  request.destroy();
  await expect
    .poll(() => logged, { timeout: 30_000 })
    .toMatchObject([{ problem: { code: 'body-incomplete' } }]);
  expect(await postTo(url, { sender, headers: headersOf({}), body: Buffer.from(paid()) })).toMatchObject({
    status: 200,
  });
});
