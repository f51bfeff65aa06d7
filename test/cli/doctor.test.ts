import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { handmade, kit, root, SECRET, served } from '../doctor/receivers.ts';

const entry = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.ts');
let folder: string;
let secretFile: string;
let caFile: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hookladder-doctor-'));
  secretFile = join(folder, 'secret.txt');
  caFile = join(folder, 'ca.pem');
  await writeFile(secretFile, `${SECRET}\n`);
  await writeFile(caFile, root.pem);
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

async function doctor(url: string, args: readonly string[], env: Record<string, string> = {}, input = '') {
  const child = spawn(process.execPath, [entry, 'doctor', url, '--pace', '1ms', ...args], {
    env: { PATH: process.env['PATH'], NODE_NO_WARNINGS: '1', ...env },
  });
  child.stdin.end(input);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  expect(stdout + stderr).not.toContain(SECRET);
  return { code: child.exitCode, stdout, stderr };
}

const here = ['--allow-network', '127.0.0.0/8'];

test('R61 a clean endpoint: in words, how much is sent is said first; exit code 0', async () => {
  const url = await served(kit());
  const args = ['--secret-file', secretFile, '--ca-file', caFile, ...here];
  const { code, stdout, stderr } = await doctor(url, args);
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('Nothing is wrong') });
  expect(stderr).toMatch(/^At most \d+ test events within \d+ s/);
  expect(stdout).toMatch(/✓ signature-wrong +A forged webhook must be refused/);
  expect(Number(/Requests: (\d+)/.exec(stdout)?.[1])).toBeLessThanOrEqual(
    Number(/At most (\d+)/.exec(stderr)?.[1]),
  );
});

test('R61 faults: in JSON and HTML, with the secret of a pipe; exit code 8', async () => {
  const echo = '<script>alert(1)</script>';
  const url = await served(
    handmade({
      passes: () => true,
      answer: (response, status) => response.writeHead(status).end(status < 300 ? echo : 'no'),
    }),
    'none',
  );
  const html = join(folder, 'report.html');
  const docs = 'https://platform.example/receiving';
  const args = [
    '--secret-file',
    '-',
    '--json',
    '--html',
    html,
    '--docs',
    docs,
    '--skip',
    'keep-alive',
    ...here,
  ];
  const { code, stdout, stderr } = await doctor(url, args, {}, `${SECRET}\n`);
  expect({ code, stderr }).toEqual({ code: 8, stderr: '' });
  const report = JSON.parse(stdout) as { checks: { id: string; verdict: string }[] };
  expect(report).toMatchObject({
    format: 'hookladder-doctor.v1',
    url,
    run: expect.stringMatching(/^doctor_/),
    startedAt: expect.stringMatching(/Z$/),
    durationMs: expect.any(Number),
    requests: expect.any(Number),
    verdict: 'fault',
    counts: { fault: 2 },
  });
  for (const check of report.checks) {
    expect(check).toMatchObject({
      title: expect.any(String),
      sent: expect.any(String),
      seen: expect.any(String),
      see: expect.stringContaining(`${docs}#`),
    });
  }
  const faults = report.checks.filter(({ verdict }) => verdict === 'fault').map(({ id }) => id);
  expect(faults).toEqual(['https', 'signature-wrong']);
  expect(report.checks.map(({ id }) => id)).not.toContain('keep-alive');
  const page = await readFile(html, 'utf8');
  expect(page).toContain('&lt;script&gt;alert(1)');
  expect(page).not.toContain('<script');
  expect(page).not.toMatch(/\ssrc=|@import|url\(/);
  expect(page).not.toContain(SECRET);
});

test('R61 a warning; some checks only, a secret of the environment; exit code 7', async () => {
  const url = await served(handmade({ refusal: 500 }), 'none');
  const args = ['--only', 'signature-wrong, answer-time', '--json'];
  const env = { WEBHOOK_SECRET: SECRET, HOOKLADDER_ALLOWED_NETWORKS: '127.0.0.0/8' };
  const { code, stdout } = await doctor(url, args, env);
  expect(code).toBe(7);
  expect(JSON.parse(stdout)).toMatchObject({
    checks: [
      { id: 'answer-time', verdict: 'ok' },
      { id: 'signature-wrong', verdict: 'warning' },
    ],
  });
});

test('wrong arguments are told with what to do, exit code 2, and nothing is sent', async () => {
  let requests = 0;
  const url = await served(() => (requests += 1), 'none');
  const withSecret = ['--secret-file', secretFile];
  const wrong: [string[], string][] = [
    [[], 'WEBHOOK_SECRET'],
    [[...withSecret, '--secret', 'x'], 'only one'],
    [[...withSecret, '--only', 'https,teeth'], 'there is no check teeth; there are https'],
    [[...withSecret, '--only', 'https', '--skip', 'https'], 'no check to make'],
    [[...withSecret, '--allow-network', '127.0.0.1/8'], '127.0.0.0/8'],
    [[...withSecret, '--ca-file', secretFile], 'PEM'],
    [[...withSecret, '--headers-file', secretFile], 'no JSON'],
    [[...withSecret, '--pace', 'soon'], '500ms'],
    [['--secret-file', '-'], '16 to 128 bytes'],
    [[...withSecret, '--merchant', 'shop-1'], 'only one of them'],
  ];
  await Promise.all(
    wrong.map(async ([args, words]) => {
      const { code, stderr } = await doctor(url, args);
      expect({ args, code, stderr }).toEqual({ args, code: 2, stderr: expect.stringContaining(words) });
    }),
  );
  expect(requests).toBe(0);
});
