import fc from 'fast-check';
import { expect, describe, test } from 'vitest';
import { Webhook } from 'standardwebhooks';
import { signatureHeaders } from '../../src/http/signatures.ts';
import { isMoneyEvent } from '../../src/policy/events.ts';
import { KNOWN_EVENT_TYPES, verify, type HeadersLike, type ProblemCode } from '../../src/receiver/index.ts';
import { headersOf, OLD_SECRET, only, paid, SECRET, vectors } from './wire.ts';

const body = Buffer.from(paid());

async function codeOf(headers: HeadersLike, raw: unknown = body, secrets: string | string[] = SECRET) {
  const verified = await verify(headers, raw, secrets);
  return verified.ok ? 'genuine' : verified.problem.code;
}

describe('signature vectors', () => {
  test.each(vectors)('R61 R62 $id verifies by either family, and not with another body', async (vector) => {
    const raw = Buffer.from(vector.bodyBase64, 'base64');
    const { id, timestamp } = vector;
    const own = {
      'x-webhook-id': id,
      'x-webhook-timestamp': timestamp,
      'x-webhook-signature': vector.xWebhookSignature,
    };
    const standard = {
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': vector.webhookSignature,
    };
    const now = () => Number(timestamp) * 1_000;
    for (const headers of [own, standard, { ...own, ...standard }]) {
      const verified = await verify(headers, raw, ['another secret', vector.secret], { now });
      expect(verified).toMatchObject({ ok: true, event: { id, timestamp: new Date(now()) } });
      expect(verified.ok && Buffer.from(verified.event.rawBody).equals(raw)).toBe(true);
      const altered = Buffer.concat([raw, Buffer.from(' ')]);
      expect(await verify(headers, altered, vector.secret, { now })).toMatchObject({
        ok: false,
        problem: { code: 'wrong-signature', status: 401 },
      });
    }
  });
});

test('R62 what the library of Standard Webhooks signs is genuine', async () => {
  const timestamp = new Date(Math.floor(Date.now() / 1_000) * 1_000);
  const signature = new Webhook(OLD_SECRET).sign('msg_1', timestamp, body.toString());
  const headers = new Headers({
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(timestamp.getTime() / 1_000),
    'webhook-signature': `v1,AAAA v2,${'A'.repeat(43)}= ${signature}`,
  });
  expect(await verify(headers, body.toString(), OLD_SECRET)).toMatchObject({
    ok: true,
    families: ['standard'],
  });
});

test('R61 R63 whatever is signed verifies with each of its secrets, and a change of a byte does not', async () => {
  const bytes = fc.uint8Array({ maxLength: 64 });
  const secret = fc
    .string({ minLength: 16, maxLength: 40, unit: 'grapheme' })
    .filter((text) => !text.startsWith('whsec_'));
  await fc.assert(
    fc.asyncProperty(bytes, secret, secret, fc.nat(), async (text, first, second, at) => {
      const raw = Buffer.from(JSON.stringify([...text]));
      const message = { webhookId: 'evt_1', timestamp: Math.floor(Date.now() / 1_000), body: raw };
      const headers = signatureHeaders(message, { secret: first, nextSecret: second });
      expect(await codeOf(headers, raw, first)).toBe('genuine');
      expect(await codeOf(headers, raw, [second])).toBe('genuine');
      const altered = Buffer.from(raw);
      altered[at % raw.length] = (altered[at % raw.length] ?? 0) ^ 1;
      expect(await codeOf(headers, altered, [first, second])).toBe('wrong-signature');
    }),
    { numRuns: 100 },
  );
});

describe('what is refused, and how', () => {
  const now = Math.floor(Date.now() / 1_000);
  const genuine = headersOf({});
  const forged = headersOf({ secret: 'another secret of 30 bytes' });
  const cases: [ProblemCode, number, HeadersLike, unknown?, (string | string[])?][] = [
    ['no-secret', 500, genuine, body, []],
    ['no-secret', 500, genuine, body, ''],
    ['no-secret', 500, genuine, body, ['', '']],
    ['bad-secret', 500, genuine, body, 'whsec_***'],
    ['bad-secret', 500, genuine, body, 'whsec_'],
    ['body-parsed', 500, genuine, JSON.parse(paid())],
    ['body-parsed', 500, genuine, undefined],
    ['missing-signature', 401, {}],
    ['missing-signature', 401, { 'x-webhook-signature': ' ' }],
    ['bad-id', 400, headersOf({ headers: { 'X-Webhook-Id': undefined } })],
    ['bad-id', 400, headersOf({ id: 'x'.repeat(257) })],
    ['bad-id', 400, headersOf({ headers: { 'webhook-id': 'a b' } })],
    ['id-mismatch', 400, headersOf({ headers: { 'X-Webhook-Id': 'other' } })],
    ['bad-timestamp', 400, headersOf({ headers: { 'X-Webhook-Timestamp': undefined } })],
    ['bad-timestamp', 400, headersOf({ headers: { 'webhook-timestamp': '1e9' } })],
    ['bad-timestamp', 400, headersOf({ headers: { 'webhook-timestamp': `${now}, ${now}` } })],
    ['wrong-signature', 401, forged],
    [
      'wrong-signature',
      401,
      { ...genuine, 'X-Webhook-Signature': genuine['X-Webhook-Signature']?.slice(0, 63) ?? '' },
    ],
    ['wrong-signature', 401, { ...genuine, 'X-Webhook-Signature': `${genuine['X-Webhook-Signature']}0` }],
    ['wrong-signature', 401, { ...genuine, 'webhook-signature': 'v1,' }],
    ['stale-timestamp', 401, headersOf({ timestamp: now - 400 })],
    ['future-timestamp', 401, headersOf({ timestamp: now + 400 })],
    ['not-json', 400, headersOf({ body: 'paid' }), Buffer.from('paid')],
    ['not-json', 400, headersOf({ body: Buffer.from([0x22, 0xff, 0x22]) }), Buffer.from([0x22, 0xff, 0x22])],
  ];
  test.each(cases)('R61 %s: %i', async (code, status, headers, raw = body, secrets = SECRET) => {
    const verified = await verify(headers, code === 'body-parsed' && raw === body ? undefined : raw, secrets);
    expect(verified).toMatchObject({ ok: false, problem: { code, status } });
    const told = JSON.stringify(verified);
    expect(told).toMatch(/"remedy":"[A-Z].+\."/);
    expect(told).not.toContain(SECRET);
  });

  test('R61 a body that is gone is told before all that a stranger could say', async () => {
    expect(await codeOf({}, { a: 1 })).toBe('body-parsed');
  });

  test('a sender who does not sign right is not told of clocks', async () => {
    expect(await codeOf(headersOf({ secret: 'another secret of 30 bytes', timestamp: 1 }))).toBe(
      'wrong-signature',
    );
  });

  test('R61 garbage in any header never throws', async () => {
    const names = Object.keys(genuine);
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...names), fc.string({ unit: 'binary' }), async (name, value) => {
        await codeOf({ ...genuine, [name]: value });
      }),
    );
  });
});

test('R63 secrets that are not set are left out', async () => {
  expect(await verify(headersOf({}), body, [undefined, '', SECRET])).toMatchObject({ ok: true });
  expect(await verify(headersOf({}), body, undefined)).toMatchObject({ problem: { code: 'no-secret' } });
});

describe('headers as the platforms give them', () => {
  const genuine = headersOf({});
  test.each<[string, HeadersLike]>([
    ['as sent', genuine],
    [
      'in lower case (node:http)',
      Object.fromEntries(Object.entries(genuine).map(([name, value]) => [name.toLowerCase(), value])),
    ],
    [
      'in upper case, as lists',
      Object.fromEntries(Object.entries(genuine).map(([name, value]) => [name.toUpperCase(), [value]])),
    ],
    ['as Headers', new Headers(genuine)],
    [
      'several signatures joined by a proxy',
      { ...genuine, 'X-Webhook-Signature': `${'0'.repeat(64)}, ${genuine['X-Webhook-Signature']}` },
    ],
  ])('R61 %s', async (_, headers) => {
    expect(await codeOf(headers)).toBe('genuine');
  });

  test.each([
    ['a Buffer', body],
    ['a Uint8Array', new Uint8Array(body)],
    ['an ArrayBuffer', Uint8Array.from(body).buffer],
    ['a DataView', new DataView(Uint8Array.from(body).buffer)],
    ['a string', paid()],
  ])('the body as %s', async (_, raw) => {
    expect(await codeOf(genuine, raw)).toBe('genuine');
  });
});

describe('events', () => {
  const eventOf = async (text: string) => {
    const verified = await verify(headersOf({ body: text }), text, SECRET);
    if (!verified.ok) throw new Error(verified.problem.code);
    return verified.event;
  };

  test.each(['type', 'event', 'event_type'])('R30 a known type under "%s"', async (field) => {
    for (const type of KNOWN_EVENT_TYPES) {
      expect(await eventOf(JSON.stringify({ [field]: type, a: 1 }))).toMatchObject({
        known: true,
        type,
        data: { a: 1 },
      });
    }
  });

  test.each([
    ['{"type":"loan.approved"}', 'loan.approved'],
    ['{"type":"card","event":"payment.status_changed"}', 'payment.status_changed'],
    ['{"type":1}', undefined],
    ['{"__proto__":{"type":"kyc.status_changed"}}', undefined],
    ['[]', undefined],
    ['null', undefined],
    ['"kyc.status_changed"', undefined],
  ])('R30 %s is of type %s', async (text, type) => {
    expect(await eventOf(text)).toMatchObject({ type, known: type === 'payment.status_changed' });
  });

  test('R30 all types of events that move money are known', () => {
    const statuses = ['paid', 'settled', 'refunded', 'completed', undefined];
    const moving = KNOWN_EVENT_TYPES.filter((type) => statuses.some((status) => isMoneyEvent(type, status)));
    expect(moving).toHaveLength(5);
  });

  test('R61 facts of the attempt; what is malformed is left out', async () => {
    expect(await eventOf('{}')).toMatchObject({
      attempt: 1,
      createdAt: new Date('2026-11-30T17:26:01.500Z'),
    });
    const headers = headersOf({
      body: '{}',
      headers: { 'X-Webhook-Attempt': 'x', 'X-Webhook-Created-At': 'x' },
    });
    const verified = await verify(headers, '{}', SECRET);
    expect(verified).toMatchObject({ ok: true, event: { attempt: undefined, createdAt: undefined } });
  });

  test('either family alone tells the event', async () => {
    for (const headers of [only.own, only.standard]) {
      expect(await verify(headersOf({ id: 'evt_7', headers }), body, SECRET)).toMatchObject({
        ok: true,
        event: { id: 'evt_7' },
      });
    }
  });
});
