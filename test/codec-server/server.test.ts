import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { bearerAccess, openAccess, parseTokens, type Access } from '../../src/codec-server/access.ts';
import { startCodecServer, type CodecRequest, type CodecServer } from '../../src/codec-server/server.ts';
import { codecOf } from '../../src/encryption/encryption.ts';
import { newKey } from '../../src/key-list.ts';

const TOKEN = 'a-token-of-thirty-characters-x';
const UI = 'http://localhost:8233';
const BODY = '{"card":"4242424242424242"}';
const keys = newKey('k1');
const codec = codecOf({ keys });

let server: CodecServer;
let seen: CodecRequest[];

async function start(access: Access, hosts: readonly string[] = [], encryption = codec): Promise<void> {
  seen = [];
  server = await startCodecServer({
    codec: encryption,
    access,
    host: '127.0.0.1',
    port: 0,
    origins: new Set([UI]),
    hosts: new Set(hosts),
    onRequest: (each) => seen.push(each),
  });
}
afterEach(async () => {
  await server.close();
});

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

async function call(path: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(server.url + path, init);
  return { status: response.status, headers: response.headers, text: await response.text() };
}

async function post(path: string, body: string, headers: Record<string, string> = {}): Promise<Answer> {
  return await call(path, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', ...headers },
  });
}

/** As protobuf writes it. */
function json(payloads: readonly Payload[]): string {
  const base64 = (bytes: Uint8Array | null | undefined) => Buffer.from(bytes ?? []).toString('base64');
  return JSON.stringify({
    payloads: payloads.map(({ metadata, data }) => ({
      metadata: Object.fromEntries(
        Object.entries(metadata ?? {}).map(([name, value]) => [name, base64(value)]),
      ),
      data: base64(data),
    })),
  });
}

const clear = () => defaultPayloadConverter.toPayload({ body: BODY });

describe('the protocol', () => {
  test('decodes and encodes, at any depth of path, several payloads in order', async () => {
    await start(openAccess);
    const encrypted = await codec.encode([clear(), defaultPayloadConverter.toPayload('second')]);
    const decoded = await post('/codec/payments/decode', json(encrypted));
    expect(decoded.status).toBe(200);
    expect(JSON.parse(decoded.text)).toEqual(
      JSON.parse(json([clear(), defaultPayloadConverter.toPayload('second')])),
    );

    const encoded = await post('/encode', json([clear()]));
    expect(encoded.text).not.toContain(Buffer.from(BODY).toString('base64').slice(4, 20));
    const again = await post('/decode', encoded.text);
    expect(JSON.parse(again.text)).toEqual(JSON.parse(json([clear()])));
    expect(again.headers.get('cache-control')).toBe('no-store');
  });

  test('passes on what is not encrypted, and takes no payloads at all', async () => {
    await start(openAccess);
    expect(JSON.parse((await post('/decode', json([clear()]))).text)).toEqual(JSON.parse(json([clear()])));
    for (const none of ['{"payloads":[]}', '{}']) {
      expect(JSON.parse((await post('/decode', none)).text)).toEqual({ payloads: [] });
    }
  });

  test('R6 says which key is missing', async () => {
    await start(openAccess);
    const foreign = await codecOf({ keys: newKey('elsewhere') }).encode([clear()]);
    const refused = await post('/decode', json(foreign));
    expect(refused.status).toBe(503);
    expect(refused.text).toContain('the key \\"elsewhere\\"');
  });

  test('health tells whether there is a key, to anybody, by any name, and is not logged', async () => {
    await start(bearerAccess([], undefined), ['codec.example']);
    expect(await call('/health')).toMatchObject({ status: 200, text: '{"status":"ok"}' });
    await server.close();
    await start(openAccess, [], codecOf({ keysFile: '/no/such/file' }));
    expect((await call('/health')).status).toBe(503);
    expect(seen).toEqual([]);
  });

  test.each<[what: string, status: number, path: string, init: RequestInit]>([
    ['another path', 404, '/', { method: 'POST' }],
    ['a path that only contains it', 404, '/decode/x', { method: 'POST' }],
    ['another method', 405, '/decode', { method: 'GET' }],
    ['another content type', 415, '/decode', { method: 'POST', body: json([clear()]) }],
    ['no JSON', 400, '/decode', { method: 'POST', body: '{' }],
    ['an array', 400, '/decode', { method: 'POST', body: '[]' }],
    ['null', 400, '/decode', { method: 'POST', body: 'null' }],
    ['payloads that are no list', 400, '/decode', { method: 'POST', body: '{"payloads":{}}' }],
    ['a payload that is none', 400, '/decode', { method: 'POST', body: '{"payloads":[5]}' }],
    ['no base64', 400, '/decode', { method: 'POST', body: '{"payloads":[{"data":"%%%%"}]}' }],
    ['too much', 413, '/decode', { method: 'POST', body: 'x'.repeat(33 * 1024 * 1024) }],
  ])('%s is refused with %i, repeating nothing', async (what, status, path, init) => {
    await start(openAccess);
    const headers: Record<string, string> = what.includes('content type')
      ? {}
      : { 'content-type': 'application/json' };
    const answer = await call(path, { ...init, headers }).catch(() => undefined);
    // What is too long may be cut off before the answer is read.
    if (status !== 413 || answer !== undefined) {
      expect(answer?.status).toBe(status);
      expect(answer?.text).not.toContain('4242');
    }
    expect(seen).toMatchObject([{ status }]);
    expect((await post('/decode', json([clear()]))).status).toBe(200);
  });

  test('a body of unknown length is cut off when it is too long', async () => {
    await start(openAccess);
    const { port } = new URL(server.url);
    const socket = connect(Number(port), '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(
      'POST /decode HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n',
    );
    const closed = new Promise((resolve) => socket.on('close', resolve));
    const chunk = `100000\r\n${'x'.repeat(0x100000)}\r\n`;
    socket.resume();
    for (let sent = 0; sent < 40 && !socket.destroyed; sent++) {
      if (!socket.write(chunk)) await Promise.race([once(socket, 'drain').catch(() => undefined), closed]);
    }
    await closed;
    expect(seen).toMatchObject([{ status: 413 }]);
  });

  test('a target that is no URL does not end it', async () => {
    await start(openAccess);
    const { port } = new URL(server.url);
    const socket = connect(Number(port), '127.0.0.1');
    socket.end('POST // HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 404 /);
    expect((await call('/health')).status).toBe(200);
  });

  test('the log has who and how many, never what', async () => {
    await start(bearerAccess([{ name: 'ann', token: TOKEN }], undefined));
    await post('/decode', json(await codec.encode([clear()])), {
      authorization: `Bearer ${TOKEN}`,
      'x-namespace': 'payments',
    });
    await post('/decode', json([clear()]), { authorization: 'Bearer wrong' });
    expect(seen).toEqual([
      { method: 'POST', path: '/decode', status: 200, who: 'ann', namespace: 'payments', payloads: 1 },
      { method: 'POST', path: '/decode', status: 401, message: 'a valid bearer token is needed' },
    ]);
  });
});

describe('pages (CORS)', () => {
  test('the UI may ask: preflight and request', async () => {
    await start(bearerAccess([{ name: 'ann', token: TOKEN }], undefined));
    const preflight = await call('/decode', {
      method: 'OPTIONS',
      headers: {
        origin: UI,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type,x-namespace',
        'access-control-request-private-network': 'true',
      },
    });
    expect(preflight.status).toBe(204);
    expect(Object.fromEntries(preflight.headers)).toMatchObject({
      'access-control-allow-origin': UI,
      'access-control-allow-credentials': 'true',
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers': expect.stringMatching(/authorization.*content-type.*x-namespace/),
      'access-control-allow-private-network': 'true',
      vary: 'origin',
    });
    const answer = await post('/decode', json([clear()]), { origin: UI, authorization: `Bearer ${TOKEN}` });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('access-control-allow-origin')).toBe(UI);
    // A page must be able to read why it was refused.
    const refused = await post('/decode', json([clear()]), { origin: UI });
    expect(refused.status).toBe(401);
    expect(refused.headers.get('access-control-allow-origin')).toBe(UI);
  });

  test.each([
    'https://evil.example',
    'http://localhost:8234',
    'https://localhost:8233',
    'null',
    'http://localhost:8233.evil.example',
  ])('no page of %s may', async (origin) => {
    await start(openAccess);
    for (const answer of [
      await call('/decode', {
        method: 'OPTIONS',
        headers: { origin, 'access-control-request-method': 'POST' },
      }),
      await post('/decode', json(await codec.encode([clear()])), { origin }),
    ]) {
      expect(answer.status).toBe(403);
      expect(answer.headers.has('access-control-allow-origin')).toBe(false);
      expect(answer.text).not.toContain(Buffer.from(BODY).toString('base64').slice(4, 20));
    }
  });

  test('a name that was pointed here (DNS rebinding) is not answered', async () => {
    await start(openAccess, ['localhost', '127.0.0.1', '[::1]']);
    const { port } = new URL(server.url);
    const statusFor = async (host: string) => {
      const sent = request({ port, host: '127.0.0.1', method: 'POST', path: '/decode', headers: { host } });
      sent.end();
      const [response] = (await once(sent, 'response')) as [{ statusCode: number; resume(): void }];
      response.resume();
      return response.statusCode;
    };
    for (const host of ['evil.example', `evil.example:${port}`, '127.0.0.1.evil.example']) {
      expect(await statusFor(host)).toBe(421);
    }
    // Named rightly, it gets as far as the content type.
    for (const host of ['localhost', `LOCALHOST:${port}`, `127.0.0.1:${port}`, '[::1]:80', '[::1]']) {
      expect(await statusFor(host)).toBe(415);
    }
  });
});

describe('tokens', () => {
  test.each([
    ['none', undefined],
    ['another', `Bearer ${TOKEN}x`],
    ['a part', `Bearer ${TOKEN.slice(1)}`],
    ['another scheme', `Basic ${TOKEN}`],
    ['two', `Bearer ${TOKEN} ${TOKEN}`],
    ['nothing', 'Bearer '],
  ])('%s is refused', async (_, authorization) => {
    await start(bearerAccess([{ name: 'ann', token: TOKEN }], undefined));
    const answer = await post(
      '/decode',
      json([clear()]),
      authorization === undefined ? {} : { authorization },
    );
    expect(answer.status).toBe(401);
    expect(answer.headers.get('www-authenticate')).toBe('Bearer');
  });

  test.each([
    'ann',
    'ann:short',
    ':a-token-of-thirty-characters-x',
    'ann and bob:a-token-of-thirty-characters',
  ])('"%s" is refused, and is not repeated', (text) => {
    expect(() => parseTokens(text)).toThrow(/token 1 must be name:token/);
    expect(() => parseTokens(text)).not.toThrow(/thirty/);
  });
});

describe('tokens of an identity provider', () => {
  const [ours, theirs] = [newPair(), newPair()];
  const issuer = 'https://login.example/';
  const audience = 'hookladder-codec';
  const soon = Math.floor(Date.now() / 1_000) + 3_600;
  const claims = { iss: issuer, aud: audience, sub: 'ann@example.com', exp: soon };
  const provider = createServer((_, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({ keys: [{ ...ours.publicKey.export({ format: 'jwk' }), kid: 'a', alg: 'RS256' }] }),
    );
  });
  let jwksUrl: string;
  beforeAll(async () => {
    provider.listen(0, '127.0.0.1');
    await once(provider, 'listening');
    jwksUrl = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/keys`;
  });
  afterAll(async () => {
    provider.close();
    provider.closeAllConnections();
    await once(provider, 'close');
  });

  test('one that it signed for us is let in, by its subject', async () => {
    await start(bearerAccess([], { jwksUrl, issuer, audience }));
    const answer = await post('/decode', json([clear()]), {
      authorization: `Bearer ${jwt(ours.privateKey, claims)}`,
    });
    expect(answer.status).toBe(200);
    expect(seen).toMatchObject([{ who: 'ann@example.com' }]);
  });

  test.each<[what: string, token: () => string]>([
    ['of another key', () => jwt(theirs.privateKey, claims)],
    ['for another audience', () => jwt(ours.privateKey, { ...claims, aud: 'temporal' })],
    ['of another issuer', () => jwt(ours.privateKey, { ...claims, iss: 'https://evil.example/' })],
    ['that has expired', () => jwt(ours.privateKey, { ...claims, exp: soon - 7_200 })],
    ['without a signature', () => `${encode({ alg: 'none' })}.${encode(claims)}.`],
    ['that is none', () => 'a.b.c'],
  ])('one %s is refused', async (_, token) => {
    await start(bearerAccess([], { jwksUrl, issuer, audience }));
    const answer = await post('/decode', json([clear()]), { authorization: `Bearer ${token()}` });
    expect(answer.status).toBe(401);
  });
});

function newPair() {
  return generateKeyPairSync('rsa', { modulusLength: 2_048 });
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function jwt(key: KeyObject, claims: object): string {
  const signed = `${encode({ alg: 'RS256', kid: 'a' })}.${encode(claims)}`;
  return `${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`;
}
