import { createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { kindOfStatus, type Verdict } from '../../src/policy/verdicts.ts';
import { postTo, senderFor } from '../support/posting.ts';

const CASES = 20_000;
const MEASURED_FROM = 2_000;
const SEED = 20_000;
const AT_ONCE = 32;
const BATCH = 500;

/** What a receiver does with one request. */
interface Answer {
  readonly bytes: Buffer;
  /** Written in two pieces, cut here. */
  readonly cutAt: number;
  readonly ending: 'end' | 'reset' | 'hang';
}

const pick = (...texts: string[]) => fc.constantFrom(...texts);
const noise = fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString('latin1'));

const often = (weight: number, arbitrary: fc.Arbitrary<string>) => ({ weight, arbitrary });

const statusLine = fc.oneof(
  often(
    16,
    pick('HTTP/1.1 200 OK', 'HTTP/1.1 204', 'HTTP/1.0 500 Oh', 'HTTP/1.1 302 Found', 'HTTP/1.1 429 X'),
  ),
  often(
    3,
    fc.integer({ min: -1, max: 1_100 }).map((status) => `HTTP/1.1 ${status} Odd`),
  ),
  pick('HTTP/1.1', 'HTTP/2 200', 'HTTP/9.9 200 OK', 'http/1.1 200 OK', 'HTTP/1.1  200 OK', 'ICY 200 OK', ''),
  noise,
);
const length = pick('-1', '+5', '5, 5', '5, 6', '0x5', '18446744073709551616', ' ', '5abc');
const coding = pick('chunked', 'gzip, chunked', 'chunked, chunked', 'identity', 'xchunked');
const header = fc.oneof(
  often(
    6,
    pick('0', '5', '100').map((right) => `Content-Length: ${right}`),
  ),
  length.map((wrong) => `Content-Length: ${wrong}`),
  often(
    2,
    coding.map((each) => `Transfer-Encoding: ${each}`),
  ),
  often(
    3,
    pick('close', 'keep-alive', 'upgrade', 'Content-Length').map((option) => `Connection: ${option}`),
  ),
  pick('timeout=1', 'timeout=-1', 'timeout=99999999999', 'max=0').map((value) => `Keep-Alive: ${value}`),
  often(
    2,
    pick('/', '//evil.example/', 'javascript:0', '\u00ff\u00fe', '').map((target) => `Location: ${target}`),
  ),
  often(
    2,
    pick('gzip', 'br', 'zstd').map((each) => `Content-Encoding: ${each}`),
  ),
  often(3, pick('Retry-After: 1', 'Retry-After: 1e999', 'X-Empty:', '__proto__: 1', 'Set-Cookie: a=b')),
  pick('X', ': empty', ' folded: y', 'X : y', 'X:\0'),
  fc.integer({ min: 1, max: 40_000 }).map((size) => `X-Huge: ${'h'.repeat(size)}`),
  fc.integer({ min: 1, max: 2_000 }).map((count) => 'X-Many: m\r\n'.repeat(count).trimEnd()),
  noise,
);
const body = fc.oneof(
  often(
    6,
    pick(
      '',
      'hello',
      'h',
      '5\r\nhello\r\n0\r\n\r\n',
      '5\r\nhel',
      'zz\r\nhello',
      'ffffffffffffffff\r\nx',
      '\x1f\x8b\x08',
    ),
  ),
  fc.integer({ min: 0, max: 100_000 }).map((size) => 'b'.repeat(size)),
  often(2, noise),
);
const lineEnd = fc.oneof(often(30, fc.constant('\r\n')), pick('\n', '\r', '\r\r\n'));
const interim = fc.oneof(
  often(8, fc.constant('')),
  pick(
    'HTTP/1.1 100 Continue\r\n\r\n',
    'HTTP/1.1 103 E\r\nLink: x\r\n\r\n',
    'HTTP/1.1 101 S\r\n\r\n',
    'HTTP/1.1 1',
  ),
);
const answer: fc.Arbitrary<Answer> = fc
  .record({
    interim,
    statusLine,
    headers: fc.array(header, { maxLength: 4 }),
    lineEnd,
    body,
    /** How much of it is sent. */
    share: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, fc.double({ min: 0, max: 1, noNaN: true })),
    flips: fc.oneof({ weight: 5, arbitrary: fc.constant([]) }, fc.array(fc.nat(), { maxLength: 4 })),
    again: fc.oneof({ weight: 9, arbitrary: fc.constant(1) }, fc.constant(2)),
    cut: fc.double({ min: 0, max: 1, noNaN: true }),
    ending: fc.oneof(
      { weight: 12, arbitrary: fc.constant('end' as const) },
      { weight: 7, arbitrary: fc.constant('reset' as const) },
      fc.constant('hang' as const),
    ),
  })
  .map(({ share, flips, again, cut, ending, ...parts }) => {
    const head = [parts.statusLine, ...parts.headers, '', ''].join(parts.lineEnd);
    const whole = Buffer.from(`${parts.interim}${head}${parts.body}`.repeat(again), 'latin1');
    const bytes = whole.subarray(0, Math.ceil(whole.length * share));
    for (const flip of flips) {
      if (bytes.length > 0) bytes[flip % bytes.length] = flip % 256;
    }
    return { bytes, cutAt: Math.floor(bytes.length * cut), ending };
  });

/** Answers the request for `/n` with the n-th answer. */
async function startLiar(answers: ReadonlyMap<number, Answer>) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (chunk: Buffer) => {
      const [, number] = /^POST \/(\d+) /.exec(chunk.toString('latin1')) ?? [];
      const found = answers.get(Number(number));
      if (found !== undefined) void lie(socket, found);
    });
  });
  // Many addresses, so that the ports of one do not run out.
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
  onTestFinished(() => {
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, open: () => sockets.size };
}

async function lie(socket: Socket, { bytes, cutAt, ending }: Answer): Promise<void> {
  socket.write(bytes.subarray(0, cutAt));
  await new Promise((resolve) => setImmediate(resolve));
  socket.write(bytes.subarray(cutAt), () => {
    if (ending === 'end') socket.end();
    if (ending === 'reset') socket.resetAndDestroy();
  });
}

test('R1 R2 R5 20,000 malformed responses: a verdict each, nothing thrown, no socket and no memory kept', async () => {
  const collect = exposedGc();
  const answers = new Map<number, Answer>();
  const liar = await startLiar(answers);
  const sender = senderFor();
  const kinds = new Map<Verdict['kind'], number>();
  const check = (verdict: Verdict): void => {
    kinds.set(verdict.kind, (kinds.get(verdict.kind) ?? 0) + 1);
    if ('status' in verdict) {
      expect(kindOfStatus(verdict.status)).toBe(verdict.kind);
      expect(Buffer.byteLength(verdict.excerpt ?? '')).toBeLessThanOrEqual(1024);
    } else {
      expect(['network', 'timeout']).toContain(verdict.kind);
      expect(['reset', 'malformed-response', 'timeout', 'connect-timeout']).toContain(verdict.code);
    }
  };
  let heapAtFirst = Number.NaN;
  let next = 0;
  const postOneByOne = async (until: number): Promise<void> => {
    while (next < until) {
      const number = next++;
      const url = `http://127.0.0.${1 + (number % 200)}:${liar.port}/${number}`;
      check(await postTo(url, { sender, timeoutMs: answers.get(number)?.ending === 'hang' ? 150 : 10_000 }));
      answers.delete(number);
    }
  };
  for (let first = 0; first < CASES; first += BATCH) {
    for (const [index, each] of fc.sample(answer, { numRuns: BATCH, seed: SEED + first }).entries()) {
      answers.set(first + index, each);
    }
    await Promise.all(Array.from({ length: AT_ONCE }, async () => await postOneByOne(first + BATCH)));
    if (first + BATCH === MEASURED_FROM) heapAtFirst = await collect();
  }
  sender.close();
  await sleep(1_000);
  expect(liar.open()).toBe(0);
  expect([...kinds.values()].reduce((sum, count) => sum + count, 0)).toBe(CASES);
  for (const kind of [
    'delivered',
    'redirected',
    'rate-limited',
    'server-error',
    'network',
    'timeout',
  ] as const) {
    expect(kinds.get(kind)).toBeGreaterThan(100);
  }
  expect(await collect()).toBeLessThan(heapAtFirst * 1.1);
}, 900_000);

/** Collects garbage and tells the bytes that are still in use. */
function exposedGc(): () => Promise<number> {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  return async () => {
    for (let round = 0; round < 3; round++) {
      gc();
      await sleep(50);
    }
    return process.memoryUsage().heapUsed;
  };
}
