import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { describe, expect, test, vi } from 'vitest';
import { SendingFault } from '../../src/http/network-failures.ts';
import { defaultPolicy } from '../../src/policy/policy.ts';
import { head, ok, postTo, receiver, senderFor } from '../support/posting.ts';

const EVENTUALLY = { timeout: 30_000 };

describe('R1 the verdict is fixed when the headers are in', () => {
  test.each<[string, (socket: Socket) => void]>([
    ['E1 the body never comes', (socket) => socket.write(head(200, 'Content-Length: 100'))],
    ['E1 neither length nor body comes', (socket) => socket.write(head(200))],
    [
      'E2 the body drips',
      (socket) => {
        socket.write(head(200));
        const drip = setInterval(() => socket.write('x'), 30);
        socket.on('close', () => clearInterval(drip));
      },
    ],
    [
      'E3 the body is cut by a reset',
      (socket) =>
        socket.write(`${head(200, 'Content-Length: 100')}ten bytes.`, () => socket.resetAndDestroy()),
    ],
    [
      'the body is garbage for its encoding',
      (socket) => socket.write(`${head(200, 'Transfer-Encoding: chunked')}zzzz\r\n`),
    ],
    [
      'the body is longer than it says',
      (socket) => socket.write(`${head(200, 'Content-Length: 2')}too long`),
    ],
    ['there is no body', (socket) => socket.end(head(204))],
  ])('%s: delivered, and its socket is let go', async (_, script) => {
    const { url, open } = await receiver(script);
    expect(await postTo(url)).toMatchObject({ kind: 'delivered' });
    await vi.waitFor(() => expect(open()).toBe(0), EVENTUALLY);
  });

  test.each([
    ['plain', [], Buffer.from('x'.repeat(65_536)), 'x'.repeat(1024)],
    // A gzip bomb: a thousandth of what it would become.
    ['gzip', ['Content-Encoding: gzip'], gzipSync(Buffer.alloc(10_000_000)), '(compressed, not decoded)'],
  ])('E2 an endless %s body is cut and never decoded', async (_, headers, block, excerpt) => {
    let written = 0;
    const endless = await receiver((socket) => {
      socket.write(head(200, ...headers));
      const pour = (): void => {
        while (!socket.destroyed && socket.write(block)) written += block.length;
        written += block.length;
      };
      socket.on('drain', pour);
      pour();
    });
    expect(await postTo(endless.url)).toMatchObject({ kind: 'delivered', excerpt, excerptCut: true });
    await vi.waitFor(() => expect(endless.open()).toBe(0), EVENTUALLY);
    // What is beyond the 64 KiB lies in the buffers of the kernel.
    expect(written).toBeLessThan(64 * 1024 * 1024);
  });

  test('E2 five megabytes of binary: at most 1 KiB is kept, as text', async () => {
    const { url } = await receiver((socket) =>
      socket.end(Buffer.concat([Buffer.from(head(200)), Buffer.alloc(5_000_000, 0xf7)])),
    );
    const verdict = await postTo(url);
    expect(verdict).toMatchObject({ kind: 'delivered', excerptCut: true });
    const excerpt = 'excerpt' in verdict ? (verdict.excerpt ?? '') : '';
    expect(excerpt).toMatch(/^\uFFFD+$/);
    expect(Buffer.byteLength(excerpt)).toBeLessThanOrEqual(1024);
  });

  test('E2 bytes that are no text are decoded safely', async () => {
    const bytes = [0xff, 0x1b, 0x00, 0x41, 0x0a, ...Buffer.from('\u202E'), 0xc3];
    const { url } = await receiver((socket) =>
      socket.end(
        Buffer.concat([Buffer.from(head(500, `Content-Length: ${bytes.length}`)), Buffer.from(bytes)]),
      ),
    );
    expect(await postTo(url)).toMatchObject({
      kind: 'server-error',
      status: 500,
      excerpt: '\uFFFD\uFFFD\uFFFDA\n\uFFFD\uFFFD',
    });
  });
});

const answering = (status: number, headers: string[], body: Buffer) => (socket: Socket) =>
  socket.write(
    Buffer.concat([Buffer.from(head(status, ...headers, `Content-Length: ${body.length}`), 'latin1'), body]),
  );

describe('E2 R90 text of a stranger', () => {
  test.each([
    ['lines keep', 'a\r\nb\tc\n', 'a\nb\tc\n'],
    ['a line that is written over', 'paid\rlost', 'paid\uFFFDlost'],
    [
      'line ends of Unicode, C1, bidi',
      'a\u2028b\u2029c\u009bd\u202Ee\u200ff',
      'a\uFFFDb\uFFFDc\uFFFDd\uFFFDe\uFFFDf',
    ],
    ['invisible', 'a\u200bb\u2060c\u00add\u{e0041}e', 'a\uFFFDb\uFFFDc\uFFFDd\uFFFDe'],
  ])('an excerpt is safe: %s', async (_, body, excerpt) => {
    const { url } = await receiver(answering(200, [], Buffer.from(body)));
    const verdict = await postTo(url);
    expect(verdict).toMatchObject({ kind: 'delivered', excerpt });
    expect(verdict).not.toHaveProperty('excerptCut');
  });

  test('an excerpt that grows beyond 1 KiB by its marks is cut, and says so', async () => {
    const { url } = await receiver(answering(200, [], Buffer.alloc(1_000, 1)));
    expect(await postTo(url)).toMatchObject({ excerpt: '\uFFFD'.repeat(341), excerptCut: true });
  });

  test.each(['', ' ', 'identity', 'Identity'])('a Content-Encoding of "%s" is none', async (coding) => {
    const { url } = await receiver(answering(200, [`Content-Encoding:${coding}`], Buffer.from('ok')));
    expect(await postTo(url)).toMatchObject({ excerpt: 'ok' });
  });

  test.each([
    ['UTF-8', Buffer.from('/ü\u202E\u2028').toString('latin1'), '/ü\uFFFD\uFFFD'],
    ['other bytes', '/\u00fc\u009b2J', '/ü\uFFFD2J'],
    ['long', `/${'x'.repeat(2_000)}`, `/${'x'.repeat(1_023)}`],
  ])('E7 a Location is safe: %s', async (_, sent, location) => {
    const { url } = await receiver(answering(302, [`Location: ${sent}`], Buffer.alloc(0)));
    expect(await postTo(url)).toMatchObject({ kind: 'redirected', location });
  });
});

describe('R6 a request that cannot be written', () => {
  test.each([{ A: 'x\ny' }, { 'A B': 'x' }, { Expect: '100-continue' }, { 'Content-Length': '3' }])(
    '%j: a fault of our own, and its connection is closed',
    async (headers) => {
      const { url, open, requests } = await receiver(ok);
      await expect(postTo(url, { headers })).rejects.toThrow(SendingFault);
      await vi.waitFor(() => expect(open()).toBe(0), EVENTUALLY);
      expect(requests()).toBe(0);
    },
  );
});

describe('R2 what is no answer is a failure with a code', () => {
  test.each<[string, string, (socket: Socket) => void]>([
    ['a reset', 'reset', (socket) => socket.resetAndDestroy()],
    ['an end', 'reset', (socket) => socket.end()],
    ['half a head', 'reset', (socket) => socket.end('HTTP/1.1 200 OK\r\nX: ')],
    ['no HTTP', 'malformed-response', (socket) => socket.end('SMTP ready\r\n\r\n')],
    ['a status of 99', 'malformed-response', (socket) => socket.end(head('099', 'Content-Length: 0'))],
    ['a status of 600', 'malformed-response', (socket) => socket.end(head(600, 'Content-Length: 0'))],
    [
      'an upgrade',
      'malformed-response',
      (socket) => socket.end(head(101, 'Connection: upgrade', 'Upgrade: x')),
    ],
    [
      'a length and chunks',
      'malformed-response',
      (socket) => socket.write(`${head(200, 'Content-Length: 2', 'Transfer-Encoding: chunked')}0\r\n\r\n`),
    ],
    [
      'two lengths',
      'malformed-response',
      (socket) => socket.write(head(200, 'Content-Length: 2', 'Content-Length: 3')),
    ],
    [
      'a length that is none',
      'malformed-response',
      (socket) => socket.write(head(200, 'Content-Length: abc')),
    ],
    ['R4 many 1xx', 'malformed-response', (socket) => socket.write(head(100).repeat(17) + head(204))],
    [
      'R4 long 1xx',
      'malformed-response',
      (socket) => socket.write(head(103, `Link: ${'x'.repeat(15_000)}`).repeat(5) + head(204)),
    ],
    [
      'R4 a 1xx without end',
      'malformed-response',
      (socket) => socket.write(`HTTP/1.1 100 C\r\nX: ${'x'.repeat(70_000)}`),
    ],
    ['huge headers', 'malformed-response', (socket) => socket.end(head(200, `X: ${'y'.repeat(100_000)}`))],
  ])('%s: %s', async (_, code, script) => {
    const { url, requests } = await receiver(script);
    expect(await postTo(url)).toMatchObject({
      kind: 'network',
      code,
      message: expect.any(String),
      hint: expect.any(String),
    });
    expect(requests()).toBe(1);
  });

  test('nobody listens: connect-refused', async () => {
    const gone = await receiver(ok);
    await gone.close();
    expect(await postTo(gone.url)).toMatchObject({ kind: 'network', code: 'connect-refused' });
  });
});

describe('R5 one limit for the whole exchange', () => {
  test('E4 E5 it is 10 s', () => {
    expect(defaultPolicy.attemptTimeoutMs).toBe(10_000);
  });

  test.each<[string, (socket: Socket) => void]>([
    ['E4 nothing comes', () => undefined],
    ['R4 only 1xx comes', (socket) => socket.write(head(103, 'Link: </x>'))],
    ['R4 only 100 comes', (socket) => socket.write(head(100))],
    [
      'E5 headers drip',
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\nX: ');
        const drip = setInterval(() => socket.write('a'), 20);
        socket.on('close', () => clearInterval(drip));
      },
    ],
  ])('%s: timeout, and the receiver sees the socket closed', async (_, script) => {
    const slow = await receiver(script);
    expect(await postTo(slow.url, { timeoutMs: 500 })).toMatchObject({
      kind: 'timeout',
      code: 'timeout',
      message: 'no response headers within 0.5 s',
      timings: { firstByteMs: expect.any(Number) },
    });
    await vi.waitFor(() => expect(slow.open()).toBe(0), EVENTUALLY);
  });
});

describe('R4 interim responses are passed over', () => {
  test.each([
    ['100', head(100)],
    ['100 twice, with headers', `${head(100, 'X: y')}${head(100)}`],
    ['102, 103 and 100', `${head(102)}${head(103, 'Link: </x>')}${head(100)}`],
  ])('%s, then 200: delivered', async (_, interim) => {
    const { url } = await receiver((socket) => socket.write(`${interim}${head(200, 'Content-Length: 0')}`));
    const sender = senderFor();
    expect(await postTo(url, { sender })).toMatchObject({ kind: 'delivered', status: 200 });
    // The next response on the same connection may begin like that too.
    expect(await postTo(url, { sender })).toMatchObject({ kind: 'delivered', timings: { reused: true } });
  });

  test('byte by byte', async () => {
    const { url } = await receiver((socket) => {
      const bytes = `${head(100, 'X: y')}${head(200, 'Content-Length: 0')}`;
      for (const byte of bytes) setImmediate(() => socket.write(byte));
      socket.setNoDelay(true);
    });
    expect(await postTo(url)).toMatchObject({ kind: 'delivered', status: 200 });
  });
});

describe('E7 R4 a redirect is not followed and names its target', () => {
  const statuses = [301, 302, 303, 307, 308];

  test.each(statuses)('%i to another receiver, to this machine, to itself', async (status) => {
    const other = await receiver(ok);
    const itself = await receiver((socket) =>
      socket.write(head(status, `Location: ${itself.url}`, 'Content-Length: 0')),
    );
    for (const target of [other.url, `http://127.0.0.1:${other.port}/`, 'http://[::1]/', itself.url]) {
      const redirecting =
        target === itself.url
          ? itself
          : await receiver((socket) =>
              socket.write(head(status, `Location: ${target}`, 'Content-Length: 0')),
            );
      expect(await postTo(redirecting.url)).toMatchObject({ kind: 'redirected', status, location: target });
      expect(redirecting.requests()).toBe(1);
    }
    expect(other.connections()).toBe(0);
  });

  test.each([300, 304])('%i without Location', async (status) => {
    const { url } = await receiver((socket) => socket.write(head(status, 'Content-Length: 0')));
    const verdict = await postTo(url);
    expect(verdict).toMatchObject({ kind: 'redirected', status });
    expect(verdict).not.toHaveProperty('location');
  });
});

describe('E6 R64 nothing is sent twice', () => {
  test('a kept connection that is reset under the request is a failure, not a second request', async () => {
    let answered = 0;
    const flaky = await receiver((socket) => {
      answered += 1;
      if (answered === 1) ok(socket);
      else socket.resetAndDestroy();
    });
    const sender = senderFor();
    expect(await postTo(flaky.url, { sender })).toMatchObject({ kind: 'delivered' });
    expect(await postTo(flaky.url, { sender })).toMatchObject({
      kind: 'network',
      code: 'reset',
      timings: { reused: true },
    });
    expect([flaky.requests(), flaky.connections()]).toEqual([2, 1]);
  });

  test('a kept connection that was closed before the request is replaced by a new one', async () => {
    const closing = await receiver((socket) =>
      socket.write(head(200, 'Content-Length: 0'), () => socket.end()),
    );
    const sender = senderFor();
    for (let nth = 1; nth <= 20; nth++) {
      expect(await postTo(closing.url, { sender })).toMatchObject({ kind: 'delivered' });
      await vi.waitFor(() => expect(closing.open()).toBe(0), EVENTUALLY);
    }
    expect([closing.requests(), closing.connections()]).toEqual([20, 20]);
  });

  test('a second answer to one request is not taken for the answer to the next', async () => {
    const answer = head(200, 'Content-Length: 0');
    let isFirst = true;
    const eager = await receiver((socket) => {
      socket.write(isFirst ? answer + answer : head(500, 'Content-Length: 0'));
      isFirst = false;
    });
    const sender = senderFor();
    expect(await postTo(eager.url, { sender })).toMatchObject({ kind: 'delivered' });
    expect(await postTo(eager.url, { sender })).toMatchObject({ kind: 'server-error' });
    expect(eager.requests()).toBe(2);
  });

  test('a connection that closes about when the next request is written: at most one POST for each attempt', async () => {
    let pauseMs = 0;
    const racing = await receiver((socket) => {
      ok(socket);
      setTimeout(() => socket.end(), pauseMs);
    });
    const sender = senderFor();
    const attempts = 200;
    const verdicts = [];
    for (let nth = 0; nth < attempts; nth++) {
      pauseMs = nth % 4;
      verdicts.push(await postTo(racing.url, { sender, body: Buffer.from(`{"nth":"${nth}."}`) }));
      await sleep(nth % 3);
    }
    const seen = racing.received().toString('latin1');
    for (let nth = 0; nth < attempts; nth++) {
      const posts = seen.split(`"${nth}."`).length - 1;
      const verdict = verdicts[nth];
      if (verdict?.kind === 'delivered') expect(posts).toBe(1);
      else {
        expect(verdict).toMatchObject({ kind: 'network', code: 'reset' });
        expect(posts).toBeLessThanOrEqual(1);
      }
    }
  });
});

test('E13 R60 the receiver gets the body byte for byte, on every attempt', async () => {
  const bodies = [
    '{"emoji":"🪝","line":"\u2028","bom":"\uFEFF","nul":"\\u0000","lone":"\\ud800"}',
    '{ "b":1e21,\t"a":-0, "n":9007199254740993,\r\n "a":2 }',
  ];
  const { url, received } = await receiver(ok);
  const sender = senderFor();
  const sent = [...bodies, ...bodies].map((body) => Buffer.from(body));
  for (const body of sent) expect(await postTo(url, { sender, body })).toMatchObject({ kind: 'delivered' });
  const posts = received()
    .toString('latin1')
    .split(/POST \/hooks[^]*?\r\n\r\n/)
    .slice(1);
  expect(posts).toEqual(sent.map((body) => body.toString('latin1')));
});

describe('E15 R12 Retry-After is read', () => {
  test.each([
    ['120', 120_000],
    ['1000000', 1_000_000_000],
    ['9'.repeat(400), 31_536_000_000],
    ['-5', undefined],
    ['soon', undefined],
    ['1e9', undefined],
    ['Sun, 06 Nov 1994 08:49:37 GMT', undefined],
  ])('%s', async (value, expected) => {
    const { url } = await receiver((socket) =>
      socket.write(head(429, `Retry-After: ${value}`, 'Content-Length: 0')),
    );
    const verdict = await postTo(url);
    expect(verdict).toMatchObject({ kind: 'rate-limited', status: 429 });
    expect('retryAfterMs' in verdict ? verdict.retryAfterMs : undefined).toBe(expected);
  });
});

describe('R90 where the time went', () => {
  test('a new connection, then the same one again', async () => {
    const { url } = await receiver(ok);
    const sender = senderFor();
    expect((await postTo(url, { sender })).timings).toEqual({
      connectMs: expect.any(Number),
      firstByteMs: expect.any(Number),
    });
    const again = await postTo(url, { sender });
    expect(again).toMatchObject({ address: '127.0.0.1' });
    expect(again.timings).toEqual({ firstByteMs: expect.any(Number), reused: true });
  });
});
