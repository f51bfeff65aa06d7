import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { DeliveryHandle, EndpointSettings, MerchantHandle } from '../../src/client.ts';
import { merchantWorkflowId } from '../../src/contract.ts';
import type { GateView } from '../../src/policy/gate.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { documentedProgram } from '../any-language/documented-program.ts';
import { runProgram } from '../any-language/run-program.ts';
import { startReceiver, type Received, type Receiver } from '../support/receiver.ts';
import {
  connectTestClient,
  freshMerchant,
  PLAIN,
  startTestWorkers,
  type TestClient,
} from '../support/stack.ts';

const OLD = 'the old secret, 24 bytes';
const NEW = 'the new secret, 24 bytes';
const NEWER = `whsec_${Buffer.from('the newer key of 26 bytes!').toString('base64')}`;

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;

beforeAll(async () => {
  client = await connectTestClient({ fast: { firstPauseMs: 1 } }, PLAIN);
  workers = await startTestWorkers({ encryption: PLAIN });
  receiver = await startReceiver();
});
afterAll(async () => {
  await workers.shutdown();
  await client.close();
  await receiver.close();
});

async function merchantWith(settings: Partial<EndpointSettings> = {}): Promise<MerchantHandle> {
  const merchant = client.hooks.merchant(freshMerchant());
  await merchant.setEndpoint({ url: receiver.url + merchant.merchantId, secret: OLD, ...settings });
  return merchant;
}

function receivedBy({ merchantId }: MerchantHandle): Received[] {
  return receiver.received.filter(({ path }) => path === `/${merchantId}`);
}

async function handOver({ merchantId }: MerchantHandle, body = '{"status":"paid"}'): Promise<DeliveryHandle> {
  return (await client.hooks.deliver({ merchantId, type: 'payment.status_changed', body })).delivery;
}

async function receive(merchant: MerchantHandle, body?: string): Promise<Received> {
  await (await handOver(merchant, body)).result();
  const request = receivedBy(merchant).at(-1);
  if (request === undefined) throw new Error('nothing was received');
  return request;
}

/** A change takes effect on the attempts that begin more than a second later: waits for the one that shows it. */
async function receiveOnce(
  merchant: MerchantHandle,
  shows: (request: Received) => boolean,
): Promise<Received> {
  return await vi.waitFor(
    async () => {
      const request = await receive(merchant);
      if (!shows(request)) throw new Error('the change is not seen yet');
      return request;
    },
    { timeout: 30_000, interval: 200 },
  );
}

/** Which of the secrets each header is signed with, by the verifier of Standard Webhooks and by Python. */
async function signersOf(request: Received): Promise<Record<string, string[]>> {
  const secrets = { OLD, NEW, NEWER };
  const { 'x-webhook-signature-next': next = '', ...headers } = request.headers;
  const nextOnly = { ...headers, 'x-webhook-signature': next };
  const names = Object.keys(secrets);
  const own = await areGenuine(
    Object.values(secrets).map((secret) => ({ headers, body: request.body, secret })),
  );
  const other = await areGenuine(
    Object.values(secrets).map((secret) => ({ headers: nextOnly, body: request.body, secret })),
  );
  return {
    own: names.filter((_, index) => own[index]),
    next: names.filter((_, index) => other[index]),
    standard: Object.entries(secrets).flatMap(([name, secret]) =>
      isGenuineStandard(request, secret) ? [name] : [],
    ),
  };
}

function isGenuineStandard({ body, headers }: Pick<Received, 'body' | 'headers'>, secret: string): boolean {
  const verifier = secret.startsWith('whsec_') ? new Webhook(secret) : new Webhook(secret, { format: 'raw' });
  try {
    verifier.verify(body, headers as Record<string, string>, { jsonParse: false });
    return true;
  } catch {
    return false;
  }
}

/** What the Python function of docs/any-language.md says. */
async function areGenuine(
  requests: readonly (Pick<Received, 'headers' | 'body'> & { readonly secret: string })[],
): Promise<boolean[]> {
  const program = [
    await documentedProgram('python', 1),
    'import base64, json, sys',
    'print(json.dumps([is_genuine(r["headers"], base64.b64decode(r["body"]), r["secret"]) for r in json.load(sys.stdin)]))',
  ].join('\n');
  const input = JSON.stringify(
    requests.map(({ headers, body, secret }) => ({ headers, body: body.toString('base64'), secret })),
  );
  const { stdout, stderr, exitCode } = await runProgram('python3', ['-c', program], { input });
  expect([stderr, exitCode]).toEqual(['', 0]);
  return JSON.parse(stdout) as boolean[];
}

describe('R60 R61 R62 the headers of a webhook', () => {
  const own = {
    host: /^127\.0\.0\.1:\d+$/,
    connection: /^keep-alive$/,
    'content-length': /^17$/,
    'Content-Type': /^application\/json$/,
    'User-Agent': /^hookladder\/\d+\.\d+\.\d+$/,
    'X-Webhook-Id': /^[0-9a-f-]{36}$/,
    'X-Webhook-Timestamp': /^\d{10}$/,
    'X-Webhook-Signature': /^[0-9a-f]{64}$/,
    'X-Webhook-Attempt': /^1$/,
    'X-Webhook-Created-At': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
    'webhook-id': /^[0-9a-f-]{36}$/,
    'webhook-timestamp': /^\d{10}$/,
    'webhook-signature': /^v1,[A-Za-z0-9+/]{43}=$/,
  };

  test.each<[what: string, settings: Partial<EndpointSettings>, more: Record<string, RegExp>]>([
    ['without custom ones', {}, {}],
    [
      'R72 with custom ones',
      { headers: { Authorization: 'Bearer sk_live_1', 'x-TENANT': 'a, "b"; c' } },
      { Authorization: /^Bearer sk_live_1$/, 'x-TENANT': /^a, "b"; c$/ },
    ],
  ])('are these and no others, %s', async (_, settings, more) => {
    const { rawHeaders } = await receive(await merchantWith(settings));
    const expected: Record<string, RegExp> = { ...own, ...more };
    const names = rawHeaders.filter((_name, index) => index % 2 === 0);
    expect(names.toSorted()).toEqual(Object.keys(expected).toSorted());
    for (const [index, name] of names.entries()) {
      expect(rawHeaders[2 * index + 1], name).toMatch(expected[name] ?? /^$/);
    }
  });
});

test('R60 R61 R62 E13 odd bodies arrive byte for byte on every attempt, and two other verifiers agree', async () => {
  const bodies = [
    '{"emoji":"🪝👩‍👩‍👧‍👦","line":"\u2028\u2029"}',
    '{"bom":"\uFEFF in a string"}',
    String.raw`{"nul":"\u0000","surrogate":"\ud83d","escapes":"\/\u00e9"}`,
    '{"large":1e21,"zero":-0,"precise":9007199254740993,"price":10.50,"many":0.1000000000000000055511151231257827}',
    ' {\r\n\t"z" : 1 ,\n"a":[ ] , "10":2, "9":3, "z" : 4}\n \n',
    '"только строка"',
    'null',
    `{"long":"${'é'.repeat(60_000)}"}`,
  ];
  for (const secret of ['секрет, 29 bytes', NEWER]) {
    const merchant = await merchantWith({ secret });
    receiver.answer((_nth, { headers }) => (headers['x-webhook-attempt'] === '1' ? 429 : 200));
    const deliveries = await Promise.all(bodies.map((body) => handOver(merchant, body)));
    await Promise.all(deliveries.map((delivery) => delivery.result()));
    receiver.answer(() => 200);
    const received = receivedBy(merchant);
    expect(received.length).toBe(2 * bodies.length);
    for (const [index, { webhookId }] of deliveries.entries()) {
      const attempts = received.filter(({ headers }) => headers['x-webhook-id'] === webhookId);
      expect(attempts.map(({ body }) => body)).toEqual(Array(2).fill(Buffer.from(bodies[index] ?? '')));
    }
    // The library takes the code units of a raw secret for its bytes.
    const bytes = secret.startsWith('whsec_') ? secret : Buffer.from(secret).toString('latin1');
    expect(received.filter((each) => !isGenuineStandard(each, bytes))).toEqual([]);
    expect(await areGenuine(received.map(({ headers, body }) => ({ headers, body, secret })))).toEqual(
      received.map(() => true),
    );
    const tampered = received.map(({ headers, body }) => ({
      headers,
      secret,
      body: Buffer.concat([body, Buffer.from(' ')]),
    }));
    expect(tampered.filter((each) => isGenuineStandard(each, bytes))).toEqual([]);
    expect(await areGenuine(tampered)).toEqual(tampered.map(() => false));
  }
});

describe('R63 the rotation of a secret', () => {
  const hasNext = ({ headers }: Received) => 'x-webhook-signature-next' in headers;
  const lastEvents = async (merchant: MerchantHandle) =>
    (await merchant.breaker())?.transitions.slice(1).map(({ event, by, why }) => ({ event, by, why }));

  test('signs with both until it is promoted, and another rotation replaces the new one', async () => {
    const merchant = await merchantWith();
    expect(await signersOf(await receive(merchant))).toEqual({ own: ['OLD'], next: [], standard: ['OLD'] });

    expect(await merchant.rotateSecret(NEW, { by: 'ann', why: 'yearly' })).toEqual({ applied: true });
    const both = await receiveOnce(merchant, hasNext);
    expect(both.headers['webhook-signature']).toMatch(/^v1,\S+ v1,\S+$/);
    expect(await signersOf(both)).toEqual({ own: ['OLD'], next: ['NEW'], standard: ['OLD', 'NEW'] });

    await merchant.rotateSecret(NEWER, { keepOldFor: '7 days' });
    const newer = await receiveOnce(merchant, (request) => isGenuineStandard(request, NEWER));
    expect(await signersOf(newer)).toEqual({ own: ['OLD'], next: ['NEWER'], standard: ['OLD', 'NEWER'] });

    expect(await merchant.promoteSecret({ by: 'bob' })).toEqual({ applied: true });
    const one = await receiveOnce(merchant, (request) => !hasNext(request));
    expect(await signersOf(one)).toEqual({ own: ['NEWER'], next: [], standard: ['NEWER'] });
    expect(await lastEvents(merchant)).toEqual([
      { event: 'secret-rotated', by: 'ann', why: 'yearly' },
      { event: 'secret-rotated' },
      { event: 'secret-promoted', by: 'bob' },
    ]);
  });

  test('tells until when it lasts, keeps the custom headers, and ends when the endpoint is set anew', async () => {
    const merchant = await merchantWith({ headers: { 'X-Key': 'k' } });
    const before = Date.now();
    await merchant.rotateSecret(NEW);
    const { endpoint } = await merchant.describe();
    const dayMs = 24 * 60 * 60 * 1_000;
    expect(endpoint).toMatchObject({ headers: ['X-Key'] });
    expect(Math.abs((endpoint?.promoteAt ?? 0) - before - dayMs)).toBeLessThan(60_000);
    expect((await merchant.breaker())?.summary).toContain(
      `two secrets until ${new Date(endpoint?.promoteAt ?? 0).toISOString()}`,
    );
    await merchant.setEndpoint({ url: receiver.url + merchant.merchantId, secret: NEWER });
    expect((await merchant.describe()).endpoint).toEqual({
      url: receiver.url + merchant.merchantId,
      headers: [],
    });
    expect(await signersOf(await receive(merchant))).toEqual({
      own: ['NEWER'],
      next: [],
      standard: ['NEWER'],
    });
  });

  test('R51 ends by a timer of the entity that continue-as-new does not lose', async () => {
    const merchantId = freshMerchant();
    const handle = client.temporal.workflow.getHandle(merchantWorkflowId(merchantId));
    await client.temporal.workflow.start('merchantBreaker', {
      workflowId: merchantWorkflowId(merchantId),
      taskQueue: 'hookladder-merchants',
      args: [{ merchantId, signalsPerRun: 1 }],
    });
    const merchant = client.hooks.merchant(merchantId);
    await merchant.setEndpoint({ url: receiver.url + merchantId, secret: OLD });
    await merchant.rotateSecret(NEW, { keepOldFor: 2_000 });

    await vi.waitFor(
      async () => expect((await merchant.describe()).endpoint).not.toHaveProperty('promoteAt'),
      { timeout: 30_000 },
    );

    // Every signal ended its run: the one that dropped the old secret was never told of a rotation.
    const { events = [] } = await handle.fetchHistory();
    expect(events?.filter((event) => event.workflowExecutionSignaledEventAttributes)).toEqual([]);
    expect(events?.filter((event) => event.timerFiredEventAttributes).length).toBe(1);
    expect(await signersOf(await receive(merchant))).toEqual({ own: ['NEW'], next: [], standard: ['NEW'] });
    expect(await lastEvents(merchant)).toEqual([
      { event: 'secret-rotated' },
      { event: 'secret-promoted', why: 'the old secret was kept until now' },
    ]);
  });

  test('without an endpoint, or without a rotation, is a typed error', async () => {
    const nobody = client.hooks.merchant(freshMerchant());
    await expect(nobody.rotateSecret(NEW)).rejects.toMatchObject({ code: 'NO_ENDPOINT' });
    await expect(nobody.promoteSecret()).rejects.toMatchObject({ code: 'NO_ROTATION' });
    const merchant = await merchantWith();
    await expect(merchant.promoteSecret()).rejects.toMatchObject({ code: 'NO_ROTATION' });
    await merchant.rotateSecret(NEW, { keepOldFor: 0 });
    await expect(merchant.promoteSecret()).rejects.toMatchObject({ code: 'NO_ROTATION' });
    await merchant.removeEndpoint();
    await expect(merchant.rotateSecret(NEW)).rejects.toMatchObject({ code: 'NO_ENDPOINT' });
  });

  test.each<[field: string, remedy: string, secret: string, options: object]>([
    ['newSecret', 'must be 16 to 128 bytes', 'short', {}],
    ['keepOldFor', 'must be milliseconds, or a text such as "7 days"', NEW, { keepOldFor: 'soon' }],
    ['keepOldFor', 'must be milliseconds', NEW, { keepOldFor: Number.NaN }],
    ['keepOldFor', 'must be milliseconds', NEW, { keepOldFor: {} }],
    ['keepOldFor', 'must not be negative', NEW, { keepOldFor: -1 }],
    ['keepOldFor', 'must be at most 366 days', NEW, { keepOldFor: '2 years' }],
    ['keepOldFr', 'is not known', NEW, { keepOldFr: '1 day' }],
    ['by', 'must be a string', NEW, { by: 5 }],
  ])('R72 %s %s', async (field, remedy, secret, options) => {
    const refusal = await client.hooks
      .merchant('m')
      .rotateSecret(secret, options)
      .catch((error: unknown) => error);
    expect(refusal).toMatchObject({
      code: 'INVALID_ENDPOINT',
      problems: [{ field, message: expect.stringContaining(remedy) }],
    });
    expect(String(refusal)).not.toContain(secret);
  });
});

test('R63 R72 nothing that is secret is in clear in Temporal, and the memo of the largest endpoint is under 3 KB', async () => {
  const { url } = receiver;
  const merchant = await merchantWith({
    url: url + 'x'.repeat(1_024 - url.length),
    secret: 's'.repeat(128),
    headers: { Authorization: 'h'.repeat(512 - 17) },
  });
  await merchant.rotateSecret('n'.repeat(128));
  const handle = client.temporal.workflow.getHandle(merchantWorkflowId(merchant.merchantId));
  const { memo, raw } = await handle.describe();
  const stored = JSON.stringify([await handle.fetchHistory(), raw, memo, await merchant.breaker()]);
  for (const letter of ['s', 'n', 'h']) {
    expect(stored).not.toContain(letter.repeat(16));
    expect(stored).not.toContain(Buffer.from(letter.repeat(60)).toString('base64').slice(0, 60));
  }
  const view = memo?.['gate'] as GateView;
  expect(view.endpoint?.next).toBeDefined();
  expect(JSON.stringify(view).length).toBeLessThan(3_072);
});
