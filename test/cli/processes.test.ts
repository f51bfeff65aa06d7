import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { newKey, parseKeys } from '../../src/key-list.ts';
import { buildCli, type Cli } from '../support/cli.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, SECRET_KEYS, type TestClient } from '../support/stack.ts';

let cli: Cli;
let client: TestClient;
let receiver: Receiver;
let folder: string;

beforeAll(async () => {
  cli = await buildCli();
  client = await connectTestClient();
  receiver = await startReceiver();
  folder = await mkdtemp(join(tmpdir(), 'hookladder-cli-'));
}, 120_000);
afterAll(async () => {
  await client.close();
  await receiver.close();
  await cli.remove();
  await rm(folder, { recursive: true });
});

/** Collects what it prints, until it has printed something. */
async function untilPrinted(child: ChildProcess, wanted: RegExp): Promise<string> {
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  }
  await vi.waitFor(
    () => {
      if (child.exitCode !== null) throw new Error(`it ended:\n${printed}`);
      expect(printed).toMatch(wanted);
    },
    { timeout: 60_000 },
  );
  return printed;
}

async function endedBy(child: ChildProcess, signal: 'SIGINT' | 'SIGTERM'): Promise<number | null> {
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
  return child.exitCode;
}

test(
  'worker runs until SIGTERM, and cannot start without keys or Temporal',
  { timeout: 120_000 },
  async () => {
    const worker = cli.start(['worker']);
    await untilPrinted(worker, /"state":"RUNNING"[^]*"state":"RUNNING"/);
    const merchantId = freshMerchant();
    await client.hooks
      .merchant(merchantId)
      .setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
    const { delivery } = await client.hooks.deliver({ merchantId, type: 'x', body: '{}' });
    expect(await delivery.result()).toMatchObject({ state: 'delivered' });
    expect(await endedBy(worker, 'SIGTERM')).toBe(0);

    const [withoutKeys, withoutTemporal] = await Promise.all([
      cli.run(['worker'], { env: { HOOKLADDER_SECRET_KEYS: '', HOOKLADDER_ENCRYPTION_KEYS: '' } }),
      cli.run(['worker', '--address', '127.0.0.1:1']),
    ]);
    expect(withoutKeys).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/HOOKLADDER_SECRET_KEYS[^]*no key to encrypt payloads with/),
    });
    expect(withoutTemporal).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('127.0.0.1:1') });
  },
);

test('up runs a local stack until Ctrl-C, and says how to use it', { timeout: 180_000 }, async () => {
  const env = { TEMPORAL_CLI_PATH: inject('temporalBinary') };
  const up = cli.start(['up', '--state-folder', join(folder, 'state')], { env });
  const printed = await untilPrinted(up, /Ctrl-C ends it/);
  const address = /TEMPORAL_ADDRESS=(\S+)/.exec(printed)?.[1] ?? '';
  const keysFile = /HOOKLADDER_ENCRYPTION_KEYS_FILE=(\S+)/.exec(printed)?.[1] ?? '';
  const ours = { env: { HOOKLADDER_ENCRYPTION_KEYS: '', HOOKLADDER_ENCRYPTION_KEYS_FILE: keysFile } };
  expect(await cli.run(['list', '--address', address], ours)).toEqual({
    exitCode: 0,
    stdout: 'no delivery\n',
    stderr: '',
  });
  const [uiUrl = '', codecUrl = ''] = ['Temporal UI', 'Codec server'].map(
    (what) => new RegExp(`^${what} +(\\S+)$`, 'm').exec(printed)?.[1],
  );
  const settings: unknown = await (await fetch(`${uiUrl}/api/v1/settings`)).json();
  expect(settings).toMatchObject({ Codec: { Endpoint: codecUrl } });
  const askAs = async (origin: string) => {
    const headers = { origin, 'content-type': 'application/json' };
    return await fetch(`${codecUrl}/decode`, { method: 'POST', headers, body: '{"payloads":[]}' });
  };
  expect((await askAs(new URL(uiUrl).origin)).status).toBe(200);
  expect((await askAs('http://evil.example')).status).toBe(403);
  expect(await endedBy(up, 'SIGINT')).toBe(0);

  await writeFile(join(folder, 'file'), '');
  const unusable = await cli.run(['up', '--state-folder', join(folder, 'file', 'state')], { env });
  expect(unusable).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('cannot be kept') });
});

test('config says what is in force and where it came from, and hides keys', async () => {
  const file = join(folder, 'temporal.toml');
  await writeFile(
    file,
    '[profile.default]\naddress = "from-file:7233"\nnamespace = "filed"\napi_key = "private"\n',
  );
  await writeFile(join(folder, 'keys'), `${newKey('new')}\n${newKey('old')}\n`);
  const how = {
    env: {
      TEMPORAL_CONFIG_FILE: file,
      TEMPORAL_ADDRESS: 'from-environment:7233',
      HOOKLADDER_EGRESS_PROXY: 'http://us@er:private@proxy:3128',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://user:private@collector:4318',
      HOOKLADDER_ENCRYPTION_KEYS: '',
      HOOKLADDER_ENCRYPTION_KEYS_FILE: join(folder, 'keys'),
      HOOKLADDER_CODEC_TOKENS: 'ann:private-private-private',
    },
  };
  const words = await cli.run(['config', '--profile', 'default'], how);
  expect(words.stdout).toMatch(/TEMPORAL_ADDRESS +from-environment:7233 +environment/);
  const json = await cli.json(['config', '--address', 'from-flag:7233'], how);
  const profile = 'profile default of the Temporal configuration file';
  for (const setting of [
    { name: 'TEMPORAL_ADDRESS', value: 'from-flag:7233', from: 'flag' },
    { name: 'TEMPORAL_NAMESPACE', value: 'filed', from: profile },
    { name: 'TEMPORAL_API_KEY', value: '(set, not shown)', from: profile },
    { name: 'TLS', value: 'off', from: 'default' },
    {
      name: 'HOOKLADDER_SECRET_KEYS',
      value: 'test (ids, the newest first; keys are not shown)',
      from: 'environment',
    },
    {
      name: 'HOOKLADDER_ENCRYPTION_KEYS_FILE',
      value: `${join(folder, 'keys')}: new, old (ids, the newest first; keys are not shown)`,
      from: 'environment',
    },
    { name: 'HOOKLADDER_CODEC_TOKENS', value: '(set, not shown)', from: 'environment' },
    { name: 'HOOKLADDER_ALLOWED_NETWORKS', value: '127.0.0.0/8', from: 'environment' },
    { name: 'HOOKLADDER_EGRESS_PROXY', value: 'http://(not shown)@proxy:3128', from: 'environment' },
    { name: 'HOOKLADDER_LOG_LEVEL', value: 'info', from: 'default' },
    { name: 'traces', value: 'on', from: 'environment' },
    { name: 'OTEL_EXPORTER_OTLP_ENDPOINT', value: 'http://(not shown)@collector:4318', from: 'environment' },
  ]) {
    expect(json.answer).toContainEqual(setting);
  }
  expect(words.stdout + json.text).not.toContain(SECRET_KEYS.keys);
  expect(words.stdout + json.text).not.toContain('private');
});

test('keys new prints a key that a file takes, with an id of its own or one that is given', async () => {
  const { stdout, exitCode } = await cli.run(['keys', 'new']);
  expect(exitCode).toBe(0);
  expect(parseKeys(stdout, 'encryption')[0].id).toMatch(/^k-\d{4}-\d\d-\d\d-[0-9a-f]{4}$/);
  const { answer } = await cli.json(['keys', 'new', 'k2']);
  expect(answer).toEqual({ key: expect.stringMatching(/^k2:[A-Za-z0-9+/]{43}=$/) });
  const refused = await cli.run(['keys', 'new', 'k 2']);
  expect(refused).toMatchObject({ exitCode: 2, stdout: '', stderr: expect.stringContaining('1 to 32 of') });
});

test('codec-server serves until SIGTERM and logs who asked, and cannot start without a word on who may', async () => {
  const env = { HOOKLADDER_CODEC_PORT: '0', HOOKLADDER_CODEC_TOKENS: 'ann:private-private-private' };
  const server = cli.start(['codec-server'], { env });
  const printed = await untilPrinted(server, /listening/);
  const { url = '' } = JSON.parse(printed) as { url?: string };
  const output: string[] = [];
  server.stdout?.on('data', (chunk: Buffer) => output.push(chunk.toString()));
  expect((await fetch(`${url}/health`)).status).toBe(200);
  const ask = async (token: string) =>
    await fetch(`${url}/encode`, {
      method: 'POST',
      body: '{"payloads":[{"data":"NDI0Mg=="}]}',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    });
  expect((await ask('private-private-private')).status).toBe(200);
  expect((await ask('another')).status).toBe(401);
  await vi.waitFor(() => expect(output.join('')).toMatch(/"status":200,"who":"ann"[^]*"status":401/));
  expect(output.join('')).not.toMatch(/private|4242|NDI0/);
  expect(await endedBy(server, 'SIGTERM')).toBe(0);

  const [withoutTokens, withoutKeys] = await Promise.all([
    cli.run(['codec-server'], { env: { HOOKLADDER_CODEC_PORT: '0' } }),
    cli.run(['codec-server'], { env: { ...env, HOOKLADDER_ENCRYPTION_KEYS: '' } }),
  ]);
  expect(withoutTokens).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('HOOKLADDER_CODEC_TOKENS_FILE'),
  });
  expect(withoutKeys).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('no key to encrypt') });
});

test('a command without a word on encryption does nothing and says what to set', async () => {
  const refused = await cli.run(['list'], { env: { HOOKLADDER_ENCRYPTION_KEYS: '' } });
  expect(refused).toMatchObject({
    exitCode: 2,
    stdout: '',
    stderr: expect.stringMatching(/HOOKLADDER_ENCRYPTION_KEYS_FILE.*HOOKLADDER_ENCRYPTION=off/),
  });
});
