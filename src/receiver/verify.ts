import { eventOf, type WebhookEvent } from './events.ts';
import { problemOf, type Problem, type ProblemCode } from './problems.ts';

/** Headers as a `Headers`, or by their names in any case, as Node, Express, Fastify and serverless platforms give them. */
export type HeadersLike =
  { get(name: string): string | null } | Readonly<Record<string, string | readonly string[] | undefined>>;

/** One secret, or several while one is being replaced. What is empty or not set is left out. */
export type Secrets = string | undefined | readonly (string | undefined)[];

export interface VerifyOptions {
  /** How far the timestamp may be from this machine's clock, in seconds either way; 300 by default. */
  readonly toleranceSeconds?: number | undefined;
  /** The clock, Unix milliseconds. */
  readonly now?: (() => number) | undefined;
}

/** Which headers a signature came by: the `X-Webhook-…` ones, or those of Standard Webhooks. */
export type SignatureFamily = 'x-webhook' | 'standard';

/** A genuine webhook, or why it is none. */
export type Verification =
  | { readonly ok: true; readonly event: WebhookEvent; readonly families: readonly SignatureFamily[] }
  | { readonly ok: false; readonly problem: Problem };

/** More signatures in one header than a sender has secrets. */
const SIGNATURES_AT_MOST = 8;

const utf8 = new TextEncoder();

/** What one family of headers says. */
interface Claim {
  readonly family: SignatureFamily;
  readonly id: string;
  readonly timestamp: string;
  readonly signatures: readonly Uint8Array<ArrayBuffer>[];
  /** What is signed before the body. */
  readonly prefix: string;
}

/**
 * R61–R63: tells whether a request is a genuine, recent webhook. Every family of headers that is there must be right:
 * the one of Standard Webhooks signs the id too. In constant time; never throws for what a stranger sends.
 * @param rawBody - the bytes as they came. A string is taken for their UTF-8; whatever else was parsed already.
 */
export async function verify(
  headers: HeadersLike,
  rawBody: unknown,
  secrets: Secrets,
  { toleranceSeconds = 300, now = Date.now }: VerifyOptions = {},
): Promise<Verification> {
  const keys = [secrets].flat().filter((each): each is string => Boolean(each));
  if (keys.length === 0) return refused('no-secret');
  if (keys.some((each) => standardKey(each) === undefined)) return refused('bad-secret');
  const body = bytesOf(rawBody);
  if (body === undefined) return refused('body-parsed');

  const claims = claimsOf(headers);
  const [first] = claims;
  if (first === undefined) return refused('missing-signature');
  if (!claims.every(({ id }) => isId(id))) return refused('bad-id');
  if (claims.some(({ id }) => id !== first.id)) return refused('id-mismatch');
  if (claims.some(({ timestamp }) => !/^\d{1,12}$/.test(timestamp))) return refused('bad-timestamp');
  const genuine = await Promise.all(claims.map((claim) => isGenuine(claim, body, keys)));
  if (genuine.includes(false)) return refused('wrong-signature');
  // Only now, so that only a sender who signs right is told of his clock.
  for (const { timestamp } of claims) {
    const age = now() / 1_000 - Number(timestamp);
    if (age > toleranceSeconds) return refused('stale-timestamp');
    if (age < -toleranceSeconds) return refused('future-timestamp');
  }

  let data: unknown;
  try {
    data = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return refused('not-json');
  }
  const attempt = Number(header(headers, 'x-webhook-attempt') ?? Number.NaN);
  const createdAt = new Date(header(headers, 'x-webhook-created-at') ?? Number.NaN);
  const facts = {
    id: first.id,
    timestamp: new Date(Number(first.timestamp) * 1_000),
    attempt: Number.isInteger(attempt) ? attempt : undefined,
    createdAt: Number.isNaN(createdAt.getTime()) ? undefined : createdAt,
    rawBody: body,
  };
  return { ok: true, event: eventOf(facts, data), families: claims.map(({ family }) => family) };
}

function refused(code: ProblemCode): Verification {
  return { ok: false, problem: problemOf(code) };
}

/** Whether a text can be a webhook's id. */
export function isId(text: string): boolean {
  return /^[!-~]{1,256}$/.test(text);
}

/** A header by its name in lower case; several of one name are joined. */
export function header(headers: HeadersLike, name: string): string | undefined {
  if (typeof headers.get === 'function') return headers.get(name) ?? undefined;
  for (const [key, value] of Object.entries(headers)) {
    if (key.toLowerCase() === name && value !== undefined) return String(value);
  }
}

function claimsOf(headers: HeadersLike): Claim[] {
  const text = (name: string): string => header(headers, name) ?? '';
  const own = `${text('x-webhook-signature')} ${text('x-webhook-signature-next')}`;
  const standard = text('webhook-signature');
  const claims: Claim[] = [];
  if (own.trim() !== '') {
    const timestamp = text('x-webhook-timestamp');
    claims.push({
      family: 'x-webhook',
      id: text('x-webhook-id'),
      timestamp,
      signatures: found(own, /(?<![^\s,])[0-9a-f]{64}(?![^\s,])/gi).map(fromHex),
      prefix: `${timestamp}.`,
    });
  }
  if (standard.trim() !== '') {
    const [id, timestamp] = [text('webhook-id'), text('webhook-timestamp')];
    claims.push({
      family: 'standard',
      id,
      timestamp,
      signatures: found(standard, /(?<=(?:^|[\s,])v1,)[A-Za-z0-9+/]{43}=(?![^\s,])/g).map(fromBase64),
      prefix: `${id}.${timestamp}.`,
    });
  }
  return claims;
}

function found(text: string, pattern: RegExp): string[] {
  return (text.match(pattern) ?? []).slice(0, SIGNATURES_AT_MOST);
}

async function isGenuine(
  { family, signatures, prefix }: Claim,
  body: Uint8Array,
  secrets: readonly string[],
): Promise<boolean> {
  const head = utf8.encode(prefix);
  const signed = new Uint8Array(head.length + body.length);
  signed.set(head);
  signed.set(body, head.length);
  const keys = secrets.map(
    (each) => (family === 'standard' ? standardKey(each) : undefined) ?? utf8.encode(each),
  );
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const matches = await Promise.all(
    keys.map(async (bytes) => {
      const key = await crypto.subtle.importKey('raw', bytes, algorithm, false, ['verify']);
      return await Promise.all(signatures.map((each) => crypto.subtle.verify(algorithm, key, each, signed)));
    }),
  );
  return matches.flat().includes(true);
}

/** R62: the base64 part of a `whsec_` secret decoded, of others the UTF-8 bytes; `undefined` if it is no base64. */
function standardKey(secret: string): Uint8Array<ArrayBuffer> | undefined {
  if (!secret.startsWith('whsec_')) return utf8.encode(secret);
  try {
    const key = fromBase64(secret.slice(6));
    return key.length === 0 ? undefined : key;
  } catch {
    return undefined;
  }
}

function bytesOf(body: unknown): Uint8Array | undefined {
  if (typeof body === 'string') return utf8.encode(body);
  // Not by instanceof: one of another realm, as in Jest and node:vm, is one too.
  if (Object.prototype.toString.call(body) === '[object ArrayBuffer]')
    return new Uint8Array(body as ArrayBuffer);
  return ArrayBuffer.isView(body) ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength) : undefined;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function fromHex(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
