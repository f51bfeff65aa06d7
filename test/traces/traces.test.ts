import { context, trace } from '@opentelemetry/api';
import { InMemorySpanExporter, SimpleSpanProcessor, type ReadableSpan } from '@opentelemetry/sdk-trace';
import { Client, Connection, type WorkflowClientInterceptor } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startCountingProxy, type CountingProxy } from '../../bench/counting-proxy.ts';
import { costOf, FATES, type Cost } from '../../bench/delivery/fates.ts';
import { Hookladder, type DeliveryHandle, type HookladderOptions } from '../../src/client.ts';
import { startTraces, type Traces } from '../../src/traces.ts';
import { bundleWorkflows, type RunningWorkers, type WorkflowBundleOption } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  connectTestClient,
  freshMerchant,
  LOOPBACK,
  SECRET_KEYS,
  startTestWorkers,
  temporalAddress,
  type TestClient,
} from '../support/stack.ts';

const webhook = { type: 'payment.status_changed', body: '{"status":"paid"}' };
const secret = 'a secret of 20 bytes';
const token = 'path-is-a-token';
const quick = { fast: { firstPauseMs: 1 } };
const exporter = new InMemorySpanExporter();

let client: TestClient;
/** A service that traces. */
let traced: Hookladder;
let traces: Traces;
let bundle: WorkflowBundleOption;
let workers: RunningWorkers;
let receiver: Receiver;

beforeAll(async () => {
  traces = startTraces({ sendTraceparent: true, spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  client = await connectTestClient(quick);
  bundle = await bundleWorkflows({ traces: true });
  receiver = await startReceiver();
  workers = await startTracingWorkers();
  traced = new Hookladder(clientOptions(client.temporal, { tracerProvider: trace.getTracerProvider() }));
}, 120_000);
afterAll(async () => {
  await workers.shutdown();
  await client.close();
  await receiver.close();
  await traces.shutdown();
});

function clientOptions(temporal: Client, more: Partial<HookladderOptions> = {}): HookladderOptions {
  return {
    client: temporal,
    secretKeys: SECRET_KEYS,
    allowHttp: true,
    allowedNetworks: LOOPBACK,
    policy: quick,
    ...more,
  };
}

async function startTracingWorkers(address = temporalAddress()): Promise<RunningWorkers> {
  return await startTestWorkers({ connection: { address }, traces, workflowBundle: bundle });
}

/** A merchant of its own, answering by script. */
async function merchantThatAnswers(...answers: number[]): Promise<string> {
  const merchantId = freshMerchant();
  receiver.answer((nth) => answers[Math.min(nth, answers.length - 1)] ?? 200);
  const url = `${receiver.url}${token}/${merchantId}?key=${token}`;
  await client.hooks.merchant(merchantId).setEndpoint({ url, secret });
  return merchantId;
}

/** Hands a webhook over within a span of the caller's. */
async function checkout(merchantId: string): Promise<DeliveryHandle> {
  return await trace.getTracer('shop').startActiveSpan('checkout', async (span) => {
    try {
      return (await traced.deliver({ merchantId, ...webhook })).delivery;
    } finally {
      span.end();
    }
  });
}

/** The spans of a trace once that of its workflow is there, which is made when the workflow has ended. */
async function traceOf(isOurs: (span: ReadableSpan) => boolean): Promise<ReadableSpan[]> {
  const run = await vi.waitFor(
    () => {
      const found = exporter
        .getFinishedSpans()
        .find((span) => span.name.startsWith('RunWorkflow:') && isOurs(span));
      if (found === undefined) throw new Error('the workflow has no span yet');
      return found;
    },
    { timeout: 30_000 },
  );
  const { traceId } = run.spanContext();
  return exporter.getFinishedSpans().filter((span) => span.spanContext().traceId === traceId);
}

function ofMerchant(merchantId: string) {
  return (span: ReadableSpan) => span.attributes['hookladder.merchant.id'] === merchantId;
}

/** Entities of earlier tests may add requests to one of them; the least is that of the delivery alone. */
const ROUNDS = 3;

function requestsIn({ requests }: Cost): number {
  return Object.values(requests).reduce((sum, count) => sum + count, 0);
}

interface Tree {
  readonly [name: string]: Tree[];
}

/** Names of spans below their parents, by time; fails if it is not one tree. */
function treeOf(spans: readonly ReadableSpan[]): Tree {
  const ids = new Set(spans.map((span) => span.spanContext().spanId));
  const roots = spans.filter((span) => !ids.has(span.parentSpanContext?.spanId ?? ''));
  expect(roots.map(({ name }) => name)).toHaveLength(1);
  const below = (parent: ReadableSpan): Tree => ({
    [parent.name]: spans
      .filter((span) => span.parentSpanContext?.spanId === parent.spanContext().spanId)
      .toSorted((one, other) => startOf(one) - startOf(other))
      .map(below),
  });
  return below(roots[0] as ReadableSpan);
}

function startOf({ startTime: [seconds, nanos] }: ReadableSpan): number {
  return seconds * 1_000 + nanos / 1e6;
}

const attempt = { 'RunActivity:attempt': [{ POST: [] }] };

describe('the trace of a delivery', () => {
  test('is one tree from the caller to the POSTs, with one retry', async () => {
    const merchantId = await merchantThatAnswers(503, 200);
    const delivery = await checkout(merchantId);
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 2 });
    const spans = await traceOf(ofMerchant(merchantId));
    expect(treeOf(spans)).toEqual({
      checkout: [{ 'StartWorkflow:delivery': [{ 'RunWorkflow:delivery': [attempt, attempt] }] }],
    });
    const ids = { 'hookladder.merchant.id': merchantId, 'hookladder.webhook.id': delivery.webhookId };
    const posts = spans.filter(({ name }) => name === 'POST').toSorted((a, b) => startOf(a) - startOf(b));
    const { hostname, port } = new URL(receiver.url);
    const both = {
      ...ids,
      'http.request.method': 'POST',
      'url.scheme': 'http',
      'server.address': hostname,
      'server.port': Number(port),
      'network.peer.address': '127.0.0.1',
    };
    expect(posts.map(({ attributes }) => attributes)).toEqual([
      {
        ...both,
        'hookladder.attempt': 1,
        'hookladder.verdict': 'server-error',
        'http.response.status_code': 503,
        'error.type': '503',
      },
      {
        ...both,
        'hookladder.attempt': 2,
        'hookladder.verdict': 'delivered',
        'http.response.status_code': 200,
      },
    ]);
    for (const { attributes } of spans.filter(({ name }) => name === 'RunActivity:attempt')) {
      expect(attributes).toMatchObject({ ...ids, 'hookladder.result': 'verdict' });
    }
  });

  test('goes on to the merchant if that is switched on, each POST with its own span', async () => {
    const merchantId = await merchantThatAnswers(503, 200);
    await (await checkout(merchantId)).result();
    const posts = (await traceOf(ofMerchant(merchantId))).filter(({ name }) => name === 'POST');
    const sent = receiver.received.filter(({ path }) => path.includes(merchantId));
    expect(sent.map(({ headers }) => headers['traceparent']).toSorted()).toEqual(
      posts.map((span) => `00-${span.spanContext().traceId}-${span.spanContext().spanId}-01`).toSorted(),
    );
    expect(sent.flatMap(({ headers }) => Object.keys(headers))).not.toContain('tracestate');
  });

  test('has the attempt that was held and the one after its release, and nothing of the entity', async () => {
    const merchantId = freshMerchant();
    const delivery = await checkout(merchantId);
    await vi.waitFor(
      async () => expect(await client.hooks.merchant(merchantId).describe()).toMatchObject({ held: 1 }),
      {
        timeout: 30_000,
      },
    );
    receiver.answer(() => 200);
    await client.hooks.merchant(merchantId).setEndpoint({ url: `${receiver.url}${merchantId}`, secret });
    await delivery.result();
    const spans = await traceOf(ofMerchant(merchantId));
    expect(treeOf(spans)).toEqual({
      checkout: [
        { 'StartWorkflow:delivery': [{ 'RunWorkflow:delivery': [{ 'RunActivity:attempt': [] }, attempt] }] },
      ],
    });
    expect(spans.map(({ attributes }) => attributes)).toContainEqual(
      expect.objectContaining({ 'hookladder.result': 'held', 'hookladder.reason': 'no-endpoint' }),
    );
  });

  test('begins with the delivery where whoever started it does not trace', async () => {
    const merchantId = await merchantThatAnswers(200);
    const { delivery } = await client.hooks.deliver({ merchantId, ...webhook });
    await delivery.result();
    expect(treeOf(await traceOf(ofMerchant(merchantId)))).toEqual({ 'RunWorkflow:delivery': [attempt] });
  });

  test('of one that a caller does not sample is not recorded', async () => {
    const merchantId = await merchantThatAnswers(200);
    const caller = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 0 };
    const { delivery } = await context.with(trace.setSpanContext(context.active(), caller), () =>
      traced.deliver({ merchantId, ...webhook }),
    );
    await delivery.result();
    const sent = receiver.received.find(({ path }) => path.includes(merchantId));
    expect(sent?.headers['traceparent']).toMatch(/^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-00$/);
    expect(exporter.getFinishedSpans().filter(ofMerchant(merchantId))).toEqual([]);
  });

  test.each([
    ['no JSON', { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('{"traceparent') }],
    ['no text', { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from([0xff, 0xfe]) }],
    ['no data', {}],
    ['no trace', defaultPayloadConverter.toPayload({ traceparent: 'x', tracestate: 7 })],
  ])('begins with the delivery if the header of a stranger is %s', async (_, header) => {
    const stranger: WorkflowClientInterceptor = {
      startWithDetails: (input, next) => next({ ...input, headers: { '_tracer-data': header } }),
      start: (input, next) => next({ ...input, headers: { '_tracer-data': header } }),
    };
    const { connection } = client.temporal;
    const temporal = new Client({ connection, interceptors: { workflow: [stranger] } });
    const merchantId = await merchantThatAnswers(200);
    const { delivery } = await new Hookladder(clientOptions(temporal)).deliver({ merchantId, ...webhook });
    await delivery.result();
    expect(treeOf(await traceOf(ofMerchant(merchantId)))).toEqual({ 'RunWorkflow:delivery': [attempt] });
  });

  test('says how one ended that failed, and of a test event likewise', async () => {
    const merchantId = await merchantThatAnswers(404);
    const notMoney = { type: 'kyc.status_changed', body: '{}' };
    const { delivery } = await traced.deliver({ merchantId, ...notMoney });
    await delivery.result();
    const spans = await traceOf(ofMerchant(merchantId));
    const run = spans.find(({ name }) => name === 'RunWorkflow:delivery');
    expect(run?.attributes).toMatchObject({ 'hookladder.outcome': 'failed' });
    await traced.merchant(merchantId).sendTest();
    const tested = await traceOf(
      (span) => ofMerchant(merchantId)(span) && span.name === 'RunWorkflow:endpointTest',
    );
    expect(treeOf(tested)).toMatchObject({
      'StartWorkflow:endpointTest': [
        { 'RunWorkflow:endpointTest': [{ 'RunActivity:sendTest': [{ POST: [] }] }] },
      ],
    });
  });
});

test('no span has a path, a query, a body or a secret', () => {
  const told = JSON.stringify(
    exporter.getFinishedSpans().map(({ name, attributes, events, status, links }) => ({
      name,
      attributes,
      events,
      status,
      links,
    })),
  );
  expect(told).toContain('RunActivity:attempt');
  for (const kept of [token, secret, 'paid', SECRET_KEYS.keys]) expect(told).not.toContain(kept);
});

describe('with and without traces', () => {
  const fates = FATES.filter(({ name }) => /^(one fast failure|held)/.test(name));
  /** Longer than the gate is cached, as any real pause is. */
  const paused = { fast: { firstPauseMs: 1_500 } };
  let proxy: CountingProxy;
  let connection: Connection;

  beforeAll(async () => {
    await workers.shutdown();
    proxy = await startCountingProxy(temporalAddress());
    connection = await Connection.connect({ address: proxy.address });
  });
  afterAll(async () => {
    await connection.close();
    await proxy.close();
  });

  async function startTheWorkers(on: boolean): Promise<RunningWorkers> {
    const { address } = proxy;
    return on ? await startTracingWorkers(address) : await startTestWorkers({ connection: { address } });
  }

  async function costs(on: boolean) {
    workers = await startTheWorkers(on);
    const tracing = on ? { tracerProvider: trace.getTracerProvider() } : {};
    const temporal = new Client({ connection });
    const place = {
      proxy,
      hooks: client.hooks,
      temporal: client.temporal,
      counted: (policy: HookladderOptions['policy']) =>
        new Hookladder(clientOptions(temporal, { policy: policy ?? paused, ...tracing })),
      endpoint: async (merchantId: string, answers: readonly number[]) => {
        receiver.answer((nth) => answers[Math.min(nth, answers.length - 1)] ?? 200);
        return `${receiver.url}${merchantId}`;
      },
    };
    const counted: Cost[] = [];
    const merchants: string[] = [];
    for (const fate of fates) {
      const tries: Cost[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const merchantId = freshMerchant();
        merchants.push(merchantId);
        tries.push(await costOf(place, fate, merchantId));
      }
      const [least] = tries.toSorted((one, other) => requestsIn(one) - requestsIn(other));
      if (least !== undefined) counted.push(least);
    }
    const open = freshMerchant();
    await place.counted(undefined).deliver({ merchantId: open, webhookId: 'webhook', ...webhook });
    await vi.waitFor(
      async () => expect(await client.hooks.merchant(open).describe()).toMatchObject({ held: 1 }),
      { timeout: 30_000 },
    );
    await workers.shutdown();
    return { costs: counted, merchants, open };
  }

  function handleOf(merchantId: string) {
    return client.temporal.workflow.getHandle(`delivery:${merchantId}:webhook`);
  }

  async function headersOf(merchantId: string): Promise<string[]> {
    return ((await handleOf(merchantId).fetchHistory()).events ?? []).flatMap((event) => {
      const {
        workflowExecutionStartedEventAttributes: start,
        activityTaskScheduledEventAttributes: scheduled,
      } = event;
      return Object.keys({ ...start?.header?.fields, ...scheduled?.header?.fields });
    });
  }

  test('a delivery costs the same events and requests, some bytes for the headers, and replays either way', async () => {
    const off = await costs(false);
    const on = await costs(true);
    // The events hold the delivery's own workflow tasks; how many its merchant takes for two reports is a matter of moments.
    const exact = ({ events, requests }: Cost) => {
      const { RespondWorkflowTaskCompleted: _, ...others } = requests;
      return { events, others };
    };
    expect(on.costs.map(exact)).toEqual(off.costs.map(exact));
    for (const index of fates.keys()) {
      const more = (on.costs[index]?.bytes ?? 0) - (off.costs[index]?.bytes ?? 0);
      expect(more).toBeGreaterThan(300);
      expect(more).toBeLessThan(500);
    }
    // Of the start, and of both attempts.
    for (const merchantId of on.merchants) {
      expect(await headersOf(merchantId)).toEqual(['_tracer-data', '_tracer-data', '_tracer-data']);
    }
    for (const merchantId of off.merchants) expect(await headersOf(merchantId)).toEqual([]);
    // A question to one that has ended has its whole history replayed; one that is open goes on from a replay.
    for (const [tracing, { merchants, open }] of [
      [false, on],
      [true, off],
    ] as const) {
      workers = await startTheWorkers(tracing);
      for (const merchantId of merchants) {
        expect(await handleOf(merchantId).query('status')).toMatchObject({ state: 'delivered' });
      }
      await client.hooks.merchant(open).setEndpoint({ url: receiver.url, secret });
      expect(await client.hooks.delivery(open, 'webhook').result()).toMatchObject({ state: 'delivered' });
      await workers.shutdown();
    }
  });
});
