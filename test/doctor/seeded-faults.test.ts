import type { RequestListener, ServerResponse } from 'node:http';
import type { TlsOptions } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { examine, type Examination } from '../../src/doctor/examine.ts';
import type { DoctorReport } from '../../src/doctor/report.ts';
import { selfSigned } from '../support/certificates.ts';
import { handmade, intermediate, kit, root, SECRET, served } from './receivers.ts';

const HOST = ['127.0.0.1'];

async function examined(url: string, more: Partial<Examination> = {}): Promise<DoctorReport> {
  return await examine({
    url,
    secret: SECRET,
    allowedNetworks: ['127.0.0.0/8'],
    trustedCertificates: [root.pem],
    ...more,
    limits: { paceMs: 0, idleMs: 300, samples: 3, ...more.limits },
  });
}

/** What is wrong, as `fault: once`. */
function found({ checks }: DoctorReport): string[] {
  return checks
    .filter(({ verdict }) => verdict === 'fault' || verdict === 'warning')
    .map(({ id, verdict }) => `${verdict}: ${id}`);
}

const notChecked = ({ checks }: DoctorReport): string[] =>
  checks.filter(({ verdict }) => verdict === 'not-checked').map(({ id }) => id);

test('the kit is reported clean: every check is made, and all is in order', async () => {
  const report = await examined(await served(kit()));
  expect(report.checks.filter(({ verdict }) => verdict !== 'ok')).toEqual([]);
  expect(report).toMatchObject({ format: 'hookladder-doctor.v1', verdict: 'ok', kit: 'hookladder/1' });
  expect(report.checks.find(({ id }) => id === 'certificate')?.seen).toMatch(
    /TLSv1\.3.*29 days left.*127\.0\.0\.1/,
  );
});

test('a right receiver without the kit is reported clean, and told what it has to see for itself', async () => {
  const report = await examined(await served(handmade()));
  expect(found(report)).toEqual([]);
  expect(notChecked(report)).toEqual(['once', 'temporary-fault', 'after-processing']);
  expect(report).toMatchObject({ verdict: 'ok' });
  expect(report).not.toHaveProperty('kit');
});

const refusesUnknown = kit({
  handler({ type }) {
    if (type !== 'payment.status_changed') throw new Error('never heard of it');
  },
});

/** A status in place of another one, as by a proxy in front. */
function instead(listener: RequestListener, change: (status: number) => number): RequestListener {
  return (request, response) => {
    const writeHead = response.writeHead.bind(response) as (
      status: number,
      headers?: object,
    ) => ServerResponse;
    Object.assign(response, {
      writeHead: (status: number, headers: object) => writeHead(change(status), headers),
    });
    listener(request, response);
  };
}

const seen = new Set<string>();
const wellKept = kit();

const seeded: [what: string, finding: string, listener: RequestListener, tls?: TlsOptions | 'none'][] = [
  ['nothing is verified', 'fault: signature-wrong', handmade({ passes: () => true })],
  [
    'a forged one is noticed and answered 200',
    'fault: signature-wrong',
    handmade({
      refusal: 200,
      answer: (response, status) => response.writeHead(status).end(String(Math.random())),
    }),
  ],
  ['a forged one is answered 500', 'warning: signature-wrong', handmade({ refusal: 500 })],
  [
    'only verified if there is a signature',
    'fault: signature-missing',
    handmade({ passes: ({ headers }) => headers['x-webhook-signature'] === undefined }),
  ],
  [
    'old timestamps are taken',
    'fault: timestamp-stale',
    handmade({ toleranceSeconds: Number.POSITIVE_INFINITY }),
  ],
  ['a tolerance of a minute', 'warning: clock', handmade({ toleranceSeconds: 60 })],
  ['a clock that is off', 'warning: clock', kit({ now: () => Date.now() - 200_000 })],
  [
    'the body is parsed and written again',
    'fault: raw-body',
    handmade({ verified: (body) => JSON.stringify(JSON.parse(body)) }),
  ],
  [
    'what is verified is Python’s JSON',
    'fault: signature-right',
    handmade({ verified: (body) => JSON.stringify(JSON.parse(body)).replaceAll(/([,:])(?=["t])/g, '$1 ') }),
  ],
  ['the secret has a line end', 'fault: signature-right', handmade({ secret: `${SECRET}\n` })],
  ['the timestamp is not signed', 'fault: signature-right', handmade({ signed: (_, body) => body })],
  ['another secret', 'fault: signature-right', kit({ secrets: 'of somebody else entirely' })],
  [
    'a body that it cannot store',
    'warning: raw-body',
    handmade({ handle: (event) => (JSON.stringify(event).includes('\\u0000') ? 500 : 200) }),
  ],
  ['bodies of 100 KB at most', 'fault: large-body', handmade({ bodyLimit: 100_000 })],
  ['fails on unknown types', 'fault: unknown-event', refusesUnknown],
  [
    'fails on types that it does not know, but for the test event',
    'fault: unknown-event',
    handmade({ handle: ({ type }) => (String(type).startsWith('hookladder.unknown') ? 422 : 200) }),
  ],
  [
    'handled twice',
    'fault: once',
    kit({
      store: { claim: async () => ({ tx: undefined, done: () => undefined, release: () => undefined }) },
    }),
  ],
  [
    'a duplicate is a conflict',
    'fault: once',
    handmade({ handle: (_, id) => (seen.has(id) ? 409 : (seen.add(id), 200)) }),
  ],
  [
    '4xx on a fault that passes',
    'fault: temporary-fault',
    instead(kit(), (status) => (status >= 500 ? 400 : status)),
  ],
  [
    'a redirect',
    'fault: redirect',
    (_, response) => response.writeHead(308, { location: 'https://shop.example/hooks/' }).end(),
  ],
  ['nothing at the path', 'fault: reachable', (_, response) => response.writeHead(404).end()],
  ['plain HTTP', 'fault: https', kit(), 'none'],
  [
    'an expired certificate',
    'fault: certificate',
    kit(),
    root.server({ hosts: HOST, fromDay: -9, untilDay: -1 }),
  ],
  ['a certificate for another name', 'fault: certificate', kit(), root.server({ hosts: ['other.example'] })],
  ['a chain without its intermediate', 'fault: certificate', kit(), intermediate.server({ hosts: HOST })],
  ['a certificate of its own', 'fault: certificate', kit(), selfSigned({ hosts: HOST })],
  [
    'a certificate that ends in two days',
    'warning: certificate',
    kit(),
    root.server({ hosts: HOST, fromDay: -88, untilDay: 2 }),
  ],
  [
    'connections closed without notice',
    'warning: keep-alive',
    (request, response) => {
      response.on('finish', () => setTimeout(() => request.socket.end(), 100));
      wellKept(request, response);
    },
  ],
  [
    'the secret on an error page',
    'fault: secret-kept',
    handmade({
      answer: (response, status) =>
        response.writeHead(status).end(status < 300 ? '' : `env: SECRET=${SECRET}`),
    }),
  ],
];

test('R61 E9 there are enough seeded faults', () => {
  expect(seeded.length).toBeGreaterThan(15);
});

test.each(seeded)(
  'R61 E9 finds a seeded fault and nothing else: %s (%s)',
  async (_, finding, listener, tls) => {
    const report = await examined(await served(listener, tls));
    expect({ found: found(report), checks: report.checks }).toMatchObject({ found: [finding] });
    const [verdict, id] = finding.split(': ');
    expect(report.checks.find((check) => check.id === id)).toMatchObject({
      verdict,
      remedy: expect.any(String),
    });
    expect(report.verdict).toBe(verdict);
    expect(JSON.stringify(report)).not.toContain(SECRET);
  },
);

test('R63 a rotation: one who compares the whole header refuses two signatures', async () => {
  const verify = kit();
  const url = await served((request, response) => {
    if (String(request.headers['webhook-signature']).includes(' ')) response.writeHead(401).end();
    else verify(request, response);
  });
  expect(found(await examined(url))).toEqual(['warning: rotation']);
});

test('R5 E4 a slow receiver, and one that never answers', async () => {
  const fast = handmade();
  const slowly = await served((request, response) => {
    void sleep(1_600).then(() => fast(request, response));
  });
  const hanging = await served(() => undefined);
  const slow = { only: ['reachable', 'answer-time'], limits: { timeoutMs: 3_000, samples: 1 } };
  const [late, never] = await Promise.all([
    examined(slowly, slow),
    examined(hanging, { limits: { timeoutMs: 500 } }),
  ]);
  expect(found(late)).toMatchObject([expect.stringContaining('answer-time')]);
  expect(found(never)).toEqual(['fault: answer-time']);
  expect(notChecked(never)).toContain('signature-right');
  expect(never.checks.find(({ id }) => id === 'signature-right')?.seen).toContain('timeout');
});

test('R12 a rate limit is told, and waited for', async () => {
  let nth = 0;
  const right = handmade();
  const url = await served((request, response) => {
    nth += 1;
    if (nth === 5) response.writeHead(429, { 'retry-after': '0' }).end();
    else right(request, response);
  });
  expect(found(await examined(url))).toEqual(['warning: rate-limit']);
});

test('E11 nothing private is contacted unless it is allowed', async () => {
  let requests = 0;
  const url = await served(() => (requests += 1));
  const report = await examined(url, { allowedNetworks: [] });
  expect(found(report)).toEqual(['fault: address']);
  expect(requests).toBe(0);
});

test('nobody there; an address, and a secret, that no endpoint can have', async () => {
  expect(found(await examined('https://127.0.0.1:1/'))).toEqual(['fault: reachable']);
  await expect(examined('ftp://127.0.0.1/')).rejects.toThrow(/must begin with https/);
  await expect(examined('https://127.0.0.1/', { secret: 'short' })).rejects.toThrow(/16 to 128/);
});

test('what is sent is marked as a test, moves no money, and ends in time', async () => {
  const bodies: Record<string, unknown>[] = [];
  const ids: string[] = [];
  const right = handmade({
    handle(event, id) {
      bodies.push(event);
      ids.push(id);
      return 200;
    },
  });
  const url = await served(right);
  const report = await examined(url);
  expect(bodies.length).toBeGreaterThan(10);
  for (const body of bodies) {
    expect(body['type']).toMatch(/^(?:hookladder\.|webhook\.probe$)/);
    expect(body).not.toHaveProperty('status');
  }
  expect(ids.filter((id) => !id.startsWith(report.run))).toEqual([]);
  const late = await examined(url, { limits: { totalMs: 1, paceMs: 10 }, only: ['raw-body'] }).catch(String);
  expect(late).toMatchObject({ checks: [{ verdict: 'not-checked' }] });
});
