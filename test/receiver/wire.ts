import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { signatureHeaders } from '../../src/http/signatures.ts';
import type { Sender } from '../../src/http/sender.ts';
import type { Verdict } from '../../src/policy/verdicts.ts';
import { postTo } from '../support/posting.ts';
import vectors from '../vectors/signatures.json' with { type: 'json' };

export { vectors };
export const SECRET = 'секрет-of-the-endpoint';
export const OLD_SECRET = `whsec_${Buffer.from('24 bytes of a random key').toString('base64')}`;

export const paid = (paymentId: string | undefined = 'pay_1'): string =>
  JSON.stringify({ event: 'payment.status_changed', payment_id: paymentId, status: 'paid' });

/** One webhook of a test. */
export interface Sent {
  readonly id?: string;
  readonly body?: string | Uint8Array;
  readonly secret?: string;
  readonly nextSecret?: string;
  /** Unix seconds; now by default. */
  readonly timestamp?: number;
  /** Changes the headers once they are signed; `undefined` drops one. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

/** The headers of a webhook, as an attempt makes them. */
export function headersOf({ id = randomUUID(), secret = SECRET, ...sent }: Sent): Record<string, string> {
  const body = Buffer.from(sent.body ?? paid());
  const timestamp = sent.timestamp ?? Math.floor(Date.now() / 1_000);
  const secrets = { secret, ...(sent.nextSecret === undefined ? {} : { nextSecret: sent.nextSecret }) };
  const headers = {
    'Content-Type': 'application/json',
    ...signatureHeaders({ webhookId: id, timestamp, body }, secrets),
    'X-Webhook-Attempt': '1',
    'X-Webhook-Created-At': '2026-11-30T17:26:01.500Z',
    ...sent.headers,
  };
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined));
}

/** Sends one webhook as a worker does. */
export async function send(url: string, sender: Sender, sent: Sent = {}): Promise<Verdict> {
  return await postTo(url, { sender, headers: headersOf(sent), body: Buffer.from(sent.body ?? paid()) });
}

const withoutOwn = Object.fromEntries(
  ['Id', 'Timestamp', 'Signature', 'Signature-Next'].map((name) => [`X-Webhook-${name}`, undefined]),
);
const withoutStandard = {
  'webhook-id': undefined,
  'webhook-timestamp': undefined,
  'webhook-signature': undefined,
};

/** Headers that leave one family only. */
export const only = { own: withoutStandard, standard: withoutOwn };

interface Expected {
  /** Vectors whose bodies the language's own JSON does not take. */
  readonly unreadable?: readonly string[];
}

/** What a right receiver does, on the wire: it knows {@link SECRET} and {@link OLD_SECRET}. */
export const rightAnswers: Record<
  string,
  (url: string, sender: Sender, expected: Expected) => Promise<void>
> = {
  'R1 R61 R64 a genuine webhook is handled, and its repetition is a duplicate': async (url, sender) => {
    const sent = { id: randomUUID() };
    await expectAnswer(send(url, sender, sent), 200, 'handled');
    await expectAnswer(send(url, sender, sent), 200, 'duplicate');
  },
  'R61 R62 either family of headers is enough': async (url, sender) => {
    await expectAnswer(send(url, sender, { headers: only.own }), 200, 'handled');
    await expectAnswer(send(url, sender, { headers: only.standard }), 200, 'handled');
    await expectAnswer(send(url, sender, { headers: only.standard, secret: OLD_SECRET }), 200, 'handled');
  },
  'R61 R62 wrong, missing, altered and re-signed ones are refused': async (url, sender) => {
    const forged = headersOf({ secret: 'another secret of the attacker' });
    const body = paid('pay_666');
    for (const headers of [
      { ...forged, ...only.own },
      { ...forged, ...only.standard },
      { 'webhook-signature': forged['webhook-signature'] },
      { 'X-Webhook-Signature': forged['X-Webhook-Signature'] },
    ]) {
      await expectAnswer(send(url, sender, { headers }), 401, 'wrong-signature');
    }
    await expectAnswer(
      send(url, sender, { headers: { ...only.own, 'X-Webhook-Signature': undefined } }),
      401,
    );
    const altered = postTo(url, { sender, headers: headersOf({}), body: Buffer.from(body) });
    await expectAnswer(altered, 401, 'wrong-signature');
    // The other family signs the id.
    const renamed = { 'X-Webhook-Id': 'evt_other', 'webhook-id': 'evt_other' };
    await expectAnswer(send(url, sender, { headers: renamed }), 401, 'wrong-signature');
    await expectAnswer(send(url, sender, { headers: { 'X-Webhook-Id': 'evt_other' } }), 400);
  },
  'R61 stale and future timestamps are refused': async (url, sender) => {
    const now = Math.floor(Date.now() / 1_000);
    await expectAnswer(send(url, sender, { timestamp: now - 3_600 }), 401, 'stale-timestamp');
    await expectAnswer(send(url, sender, { timestamp: now + 3_600 }), 401);
    await expectAnswer(send(url, sender, { timestamp: now - 60 }), 200);
    const retimed = { 'X-Webhook-Timestamp': String(now - 1), 'webhook-timestamp': String(now - 1) };
    await expectAnswer(send(url, sender, { headers: retimed }), 401, 'wrong-signature');
  },
  'R63 during a rotation old and new secret are accepted': async (url, sender) => {
    const third = 'a third secret that it does not know';
    for (const [secret, nextSecret] of [
      [OLD_SECRET, SECRET],
      [third, SECRET],
      [OLD_SECRET, third],
    ] as const) {
      await expectAnswer(send(url, sender, { secret, nextSecret }), 200, 'handled');
    }
    await expectAnswer(send(url, sender, { secret: third }), 401, 'wrong-signature');
  },
  'R30 E13 unknown events and odd bodies are accepted': async (url, sender, { unreadable = [] }) => {
    await expectAnswer(send(url, sender, { body: '{"type":"loan.approved"}' }), 200, 'handled');
    for (const { id, bodyBase64 } of vectors) {
      if (unreadable.includes(id)) continue;
      // The first of them has a payment.
      await expectAnswer(send(url, sender, { body: Buffer.from(bodyBase64, 'base64') }), 200, 'handled');
    }
  },
  'R2 a handler that fails is answered 5xx, and the webhook may come again': async (url, sender) => {
    const broken = { id: randomUUID(), body: paid('').replace('"payment_id":"",', '') };
    await expectAnswer(send(url, sender, broken), 500, 'failed');
    await expectAnswer(send(url, sender, broken), 500, 'failed');
    await expectAnswer(send(url, sender, { id: broken.id }), 200, 'handled');
  },
  'R64 of ten at once with one id, one is handled': async (url, sender) => {
    const sent = { id: randomUUID() };
    const verdicts = await Promise.all(Array.from({ length: 10 }, async () => await send(url, sender, sent)));
    const excerpts = verdicts.map((verdict) => ('excerpt' in verdict ? verdict.excerpt : verdict.kind));
    expect(excerpts.filter((text) => text?.includes('handled'))).toHaveLength(1);
    for (const verdict of verdicts)
      expect(verdict).toMatchObject({ kind: expect.stringMatching(/delivered|server-error/) });
  },
};

export async function expectAnswer(verdict: Promise<Verdict>, status: number, word = ''): Promise<void> {
  expect(await verdict).toMatchObject({ status, excerpt: expect.stringContaining(word) });
}

/** Resolves with the first match of what a process prints. */
export async function untilPrinted(
  child: {
    stdout: NodeJS.ReadableStream | null;
    stderr: NodeJS.ReadableStream | null;
    exitCode: number | null;
  },
  wanted: RegExp,
  limitMs = 60_000,
): Promise<RegExpExecArray> {
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  }
  for (const startedAt = Date.now(); Date.now() - startedAt < limitMs; await sleep(20)) {
    const found = wanted.exec(printed);
    if (found !== null) return found;
    if (child.exitCode !== null) throw new Error(`it ended:\n${printed}`);
  }
  throw new Error(`it did not print ${String(wanted)}:\n${printed}`);
}
