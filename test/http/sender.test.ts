import type { Socket } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { Sender } from '../../src/http/sender.ts';
import { startRawReceiver, type RawReceiver } from '../support/raw-receiver.ts';

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

async function receiver(script: (socket: Socket) => void): Promise<RawReceiver> {
  const started = await startRawReceiver(script);
  opened.push(started);
  return started;
}

async function post(url: string, timeoutMs = 5_000) {
  const sender = new Sender();
  opened.unshift(sender);
  return await sender.post({
    url,
    headers: { 'Content-Type': 'application/json' },
    body: Buffer.from('{"a":1}'),
    timeoutMs,
  });
}

const head = (status: number | string, ...headers: string[]) =>
  `HTTP/1.1 ${status} Word\r\n${headers.map((h) => `${h}\r\n`).join('')}\r\n`;

describe('R1 the verdict is fixed when the headers are in', () => {
  test.each([
    ['the body never comes', (socket: Socket) => socket.write(head(200, 'Content-Length: 100'))],
    [
      'the body is cut by a reset',
      (socket: Socket) =>
        socket.write(`${head(200, 'Content-Length: 100')}ten bytes.`, () => socket.resetAndDestroy()),
    ],
    [
      'the body is garbage for its encoding',
      (socket: Socket) => socket.write(`${head(200, 'Transfer-Encoding: chunked')}zzzz\r\n`),
    ],
    ['there is no body', (socket: Socket) => socket.write(head(204))],
    [
      'an early hint comes first',
      (socket: Socket) => socket.write(`${head(103, 'Link: </x>')}${head(200, 'Content-Length: 0')}`),
    ],
  ])('and delivered although %s', async (_, script) => {
    const { url } = await receiver(script);
    expect(await post(url)).toMatchObject({ kind: 'delivered' });
  });

  test('an endless body is cut, kept to 1 KiB, and its socket is let go', async () => {
    const endless = await receiver((socket) => {
      socket.write(head(200));
      const pour = () => {
        while (!socket.destroyed && socket.write('x'.repeat(8_192)));
      };
      socket.on('drain', pour);
      pour();
    });
    const verdict = await post(endless.url);
    expect(verdict).toEqual({
      kind: 'delivered',
      status: 200,
      durationMs: expect.any(Number),
      excerpt: 'x'.repeat(1024),
      excerptCut: true,
    });
    await vi.waitFor(() => expect(endless.open()).toBe(0), { timeout: 10_000 });
  });

  test('bytes that are no text are decoded safely', async () => {
    const { url } = await receiver((socket) =>
      socket.end(
        Buffer.concat([
          Buffer.from(head(500, 'Content-Length: 6')),
          Buffer.from([0xff, 0x1b, 0x00, 0x41, 0x0a, 0xc3]),
        ]),
      ),
    );
    expect(await post(url)).toMatchObject({
      kind: 'server-error',
      status: 500,
      excerpt: '\uFFFD\uFFFD\uFFFDA\n',
    });
  });
});

describe('R2 what is no answer is a failure with a code', () => {
  test.each([
    ['reset', (socket: Socket) => socket.resetAndDestroy()],
    ['reset', (socket: Socket) => socket.end()],
    ['malformed-response', (socket: Socket) => socket.end('SMTP ready\r\n\r\n')],
    ['malformed-response', (socket: Socket) => socket.end(head('099', 'Content-Length: 0'))],
    ['malformed-response', (socket: Socket) => socket.end(head(600, 'Content-Length: 0'))],
    ['malformed-response', (socket: Socket) => socket.end(head(101, 'Connection: upgrade', 'Upgrade: x'))],
    ['malformed-response', (socket: Socket) => socket.end(head(200, `X: ${'y'.repeat(100_000)}`))],
  ])('%s', async (code, script) => {
    const { url } = await receiver(script);
    expect(await post(url)).toMatchObject({ kind: 'network', code });
  });

  test('connect-refused', async () => {
    const gone = await startRawReceiver(() => undefined);
    await gone.close();
    expect(await post(gone.url)).toMatchObject({ kind: 'network', code: 'connect-refused' });
  });

  test('dns-not-found or dns-failed', async () => {
    expect(await post('http://no-such-host.invalid/')).toMatchObject({
      kind: 'network',
      code: expect.stringMatching(/^dns-/),
    });
  });

  test('plain HTTP behind an https address', async () => {
    const plain = await receiver(() => undefined);
    const { port } = new URL(plain.url);
    const verdict = await post(`https://127.0.0.1:${port}/`, 1_000);
    expect(['network', 'timeout']).toContain(verdict.kind);
  });
});

describe('R5 one limit for the whole exchange', () => {
  test.each([
    ['nothing comes', () => undefined],
    ['only 1xx comes', (socket: Socket) => socket.write(head(103, 'Link: </x>'))],
    [
      'headers drip',
      (socket: Socket) => {
        socket.write('HTTP/1.1 200 OK\r\nX: ');
        const drip = setInterval(() => socket.write('a'), 20);
        socket.on('close', () => clearInterval(drip));
      },
    ],
  ])('timeout when %s, and the receiver sees the socket closed', async (_, script) => {
    const slow = await receiver(script);
    expect(await post(slow.url, 300)).toMatchObject({ kind: 'timeout', code: 'timeout' });
    await vi.waitFor(() => expect(slow.open()).toBe(0), { timeout: 10_000 });
  });
});

describe('R4 R64 nothing is sent twice', () => {
  test.each([301, 302, 303, 307, 308])('a %i is not followed and names its target', async (status) => {
    const other = await receiver((socket) => socket.end(head(200, 'Content-Length: 0')));
    const redirecting = await receiver((socket) =>
      socket.end(head(status, `Location: ${other.url}`, 'Content-Length: 0')),
    );
    expect(await post(redirecting.url)).toMatchObject({ kind: 'redirected', status, location: other.url });
    expect([redirecting.requests(), other.requests()]).toEqual([1, 0]);
  });

  test('a kept connection that is cut under the request is a failure, not a second request', async () => {
    let answered = 0;
    const flaky = await receiver((socket) => {
      answered += 1;
      if (answered === 1) socket.write(head(200, 'Content-Length: 0'));
      else socket.resetAndDestroy();
    });
    const sender = new Sender();
    opened.unshift(sender);
    const once = async () =>
      await sender.post({ url: flaky.url, headers: {}, body: Buffer.from('{}'), timeoutMs: 5_000 });
    expect(await once()).toMatchObject({ kind: 'delivered' });
    expect(await once()).toMatchObject({ kind: 'network', code: 'reset' });
    expect(flaky.requests()).toBe(2);
  });
});

test('R12 Retry-After is read', async () => {
  const { url } = await receiver((socket) => socket.end(head(429, 'Retry-After: 120', 'Content-Length: 0')));
  expect(await post(url)).toMatchObject({ kind: 'rate-limited', status: 429, retryAfterMs: 120_000 });
});
