import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { senderFor } from '../support/posting.ts';
import { headersOf, paid, SECRET, send, untilPrinted } from '../receiver/wire.ts';

const entry = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.ts');
const AUTHORIZATION = 'Bearer of the endpoint';
let folder: string;
let secretFile: string;
const running = new Set<ChildProcess>();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hookladder-listen-'));
  secretFile = join(folder, 'secret.txt');
  await writeFile(secretFile, `${SECRET}\n`);
});
afterAll(async () => {
  for (const child of running) child.kill('SIGKILL');
  await rm(folder, { recursive: true });
});

function run(...args: string[]): ChildProcess {
  const child = spawn(process.execPath, [entry, 'listen', ...args], {
    env: { PATH: process.env['PATH'], NODE_NO_WARNINGS: '1' },
  });
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

/** A listener that answers in JSON: its address, and what it has printed since. */
async function listening(...args: string[]) {
  const child = run('--port', '0', '--json', ...args);
  const lines: Record<string, unknown>[] = [];
  if (child.stdout === null) throw new Error('it has no output');
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(JSON.parse(line)));
  await vi.waitFor(() => expect(lines).toHaveLength(1), { timeout: 60_000 });
  const [first] = lines.splice(0);
  return { child, url: `${String(first?.['listening'])}hooks`, lines };
}

async function ended(child: ChildProcess, signal: 'SIGINT' | 'SIGTERM'): Promise<number | null> {
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
  return child.exitCode;
}

test('R61 verifies and tells each webhook; bodies and credentials only when asked', async () => {
  const sender = senderFor();
  const quiet = await listening('--secret', 'a secret of the past', '--secret-file', secretFile);
  const sent = { id: 'evt_1', headers: { Authorization: AUTHORIZATION } };
  expect(await send(quiet.url, sender, sent)).toMatchObject({
    status: 200,
    excerpt: '{"outcome":"handled"}',
  });
  expect(await send(quiet.url, sender, sent)).toMatchObject({ excerpt: '{"outcome":"duplicate"}' });
  expect(await send(quiet.url, sender, { secret: 'of somebody else entirely' })).toMatchObject({
    status: 401,
  });
  expect(await send(quiet.url, sender, { body: '{"type":"webhook.probe","probe":"echo"}' })).toMatchObject({
    excerpt: expect.stringContaining('hookladder/1'),
  });
  const get = await fetch(quiet.url);
  expect(get.status).toBe(405);
  await vi.waitFor(() => expect(quiet.lines).toHaveLength(5), { timeout: 30_000 });
  expect(quiet.lines).toMatchObject([
    {
      method: 'POST',
      path: '/hooks',
      signature: 'genuine',
      id: 'evt_1',
      type: 'payment.status_changed',
      attempt: 1,
      headers: {
        authorization: '(not shown)',
        'x-webhook-id': 'evt_1',
        'x-webhook-signature': expect.stringMatching(/^[0-9a-f]{64}$/),
      },
      bodyBytes: 71,
      answer: { status: 200, outcome: 'handled' },
    },
    { answer: { status: 200, outcome: 'duplicate' } },
    {
      signature: 'wrong-signature',
      remedy: expect.stringContaining('secret'),
      answer: { status: 401, outcome: 'refused' },
    },
    { type: 'webhook.probe', answer: { status: 200, outcome: 'probe' } },
    { method: 'GET', answer: { status: 405 } },
  ]);
  expect(JSON.stringify(quiet.lines)).not.toMatch(/Bearer|pay_1|секрет/);
  expect(await ended(quiet.child, 'SIGINT')).toBe(0);

  const open = await listening('--body', '--all-headers');
  await send(open.url, sender, { ...sent, secret: 'whatever it is, of bytes' });
  await vi.waitFor(() => expect(open.lines).toHaveLength(1), { timeout: 30_000 });
  expect(open.lines).toMatchObject([
    {
      signature: 'not-checked',
      id: 'evt_1',
      body: paid(),
      headers: { authorization: AUTHORIZATION },
      answer: { status: 200 },
    },
  ]);
  expect(await ended(open.child, 'SIGTERM')).toBe(0);
});

test('R2 R5 fails the first, drops a share, delays', async () => {
  const sender = senderFor();
  const statuses = async (url: string, count: number) => {
    const verdicts = [];
    for (let nth = 0; nth < count; nth += 1) verdicts.push(await send(url, sender, { id: 'evt_1' }));
    return verdicts.map((verdict) => ('status' in verdict ? verdict.status : verdict.code));
  };
  const [failing, dropping, delaying] = await Promise.all([
    listening('--secret-file', secretFile, '--fail', '503', '--first', '2'),
    listening('--secret-file', secretFile, '--drop', '--share', '0.4'),
    listening('--secret-file', secretFile, '--delay', '60s', '--first', '1'),
  ]);
  expect(await statuses(failing.url, 4)).toEqual([503, 503, 200, 200]);
  // What was failed on request was not handled.
  await vi.waitFor(() => expect(failing.lines).toHaveLength(4), { timeout: 30_000 });
  expect(failing.lines.map(({ answer }) => (answer as { outcome: string }).outcome)).toEqual([
    'failed on request',
    'failed on request',
    'handled',
    'duplicate',
  ]);
  expect(await statuses(dropping.url, 5)).toEqual([200, 200, 'reset', 200, 'reset']);
  const late = fetch(delaying.url, { method: 'POST', headers: headersOf({}), body: paid() });
  const lost = expect(late).rejects.toThrow();
  await vi.waitFor(
    () =>
      expect(delaying.lines).toMatchObject([
        { signature: 'genuine', answer: { delayMs: 60_000, outcome: 'handled' } },
      ]),
    { timeout: 30_000 },
  );
  // Ctrl-C does not wait for it.
  expect(await ended(delaying.child, 'SIGINT')).toBe(0);
  await lost;
  await Promise.all([failing, dropping].map(async ({ child }) => await ended(child, 'SIGINT')));
});

test('in words', async () => {
  const sender = senderFor();
  const child = run('--port', '0', '--secret-file', secretFile);
  const [, url = ''] = await untilPrinted(child, /Listening on (\S+)\. Ctrl-C/);
  const printed = untilPrinted(
    child,
    /POST \/ evt_2 payment\.status_changed attempt 1\n {2}signature genuine\n {2}answer {4}200 handled\n/,
  );
  await send(url, sender, { id: 'evt_2' });
  await printed;
  const summary = untilPrinted(child, /1 received, 1 genuine, 0 failed/);
  expect(await ended(child, 'SIGINT')).toBe(0);
  await summary;
});

test('wrong arguments are told with what to do, exit code 2', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const port = String((taken.address() as { port: number }).port);
  const wrong: [string[], string][] = [
    [['--port', port], 'choose another --port'],
    [['--port', '70000'], '0 to 65535'],
    [['--fail', '500', '--drop'], 'only one'],
    [['--delay', '12'], '12s'],
    [['--first', '2'], '--fail'],
    [['--secret-file', join(folder, 'none')], 'cannot be read'],
  ];
  await Promise.all(
    wrong.map(async ([args, words]) => {
      const child = run(...args);
      if (child.stderr === null) throw new Error('it has no output');
      const [stderr] = await Promise.all([text(child.stderr), once(child, 'exit')]);
      expect({ args, code: child.exitCode, stderr }).toEqual({
        args,
        code: 2,
        stderr: expect.stringContaining(words),
      });
    }),
  );
  taken.close();
});
