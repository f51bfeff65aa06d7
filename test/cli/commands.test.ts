import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pMap from 'p-map';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { RunningWorkers } from '../../src/workers.ts';
import { buildCli, type Cli, type CliHow } from '../support/cli.ts';
import { untilListed } from '../support/many-deliveries.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const secret = 'a secret of 20 bytes';
const why = ['--by', 'ann', '--why', 'their deploy is fixed'];
const cause = { by: 'ann', why: 'their deploy is fixed' };
const kyc = 'kyc.status_changed';

let cli: Cli;
let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
let folder: string;
let merchantId: string;

beforeAll(async () => {
  cli = await buildCli();
  client = await connectTestClient();
  workers = await startTestWorkers();
  receiver = await startReceiver();
  folder = await mkdtemp(join(tmpdir(), 'hookladder-cli-'));
}, 120_000);
afterAll(async () => {
  await workers.shutdown();
  await client.close();
  await receiver.close();
  await cli.remove();
  await rm(folder, { recursive: true });
});
beforeEach(async () => {
  merchantId = freshMerchant();
  receiver.received.length = 0;
  receiver.answer(() => 200);
});

async function withEndpoint(): Promise<void> {
  await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret });
}

async function handOver(webhookId: string, answer: number, type = kyc, paymentId?: string): Promise<void> {
  receiver.answer(() => answer);
  const payment = paymentId === undefined ? {} : { paymentId };
  const body = '{"status":"paid"}';
  const { delivery } = await client.hooks.deliver({ merchantId, webhookId, type, body, ...payment });
  const ends = answer === 200 || type === kyc;
  if (ends) await delivery.result();
  else await untilState(webhookId, 'waiting-slow');
}

async function untilState(webhookId: string, state: string): Promise<void> {
  await vi.waitFor(
    async () => expect(await client.hooks.delivery(merchantId, webhookId).status()).toMatchObject({ state }),
    { timeout: 30_000 },
  );
}

/** In words and in JSON, side by side. */
async function both(...args: string[]) {
  const [words, json] = await Promise.all([cli.run(args), cli.json(args)]);
  return { words, ...json };
}

/** In words, and then in JSON: for what a second run finds done. */
async function inTurn(...args: string[]) {
  const words = await cli.run(args);
  return { words, ...(await cli.json(args)) };
}

describe('webhooks', () => {
  test('R70 deliver, and again', async () => {
    await withEndpoint();
    const args = ['deliver', merchantId, kyc, '--body', '{ "a": 1 }', '--id', 'w1', '--payment', 'p1'];
    const { words, answer } = await inTurn(...args);
    expect(words).toMatchObject({ exitCode: 0, stdout: `accepted: hookladder status ${merchantId} w1\n` });
    expect(answer).toMatchObject({ merchantId, webhookId: 'w1', started: false });
    const conflict = await cli.json(['deliver', merchantId, kyc, '--body-file', '-', '--id', 'w1'], {
      input: '{}',
    });
    expect(conflict).toMatchObject({ exitCode: 6, answer: { error: { code: 'ID_CONFLICT' } } });
    const waited = await cli.json(['deliver', merchantId, kyc, '--body-file', '-', '--wait'], {
      input: '{ "b": 2 }',
    });
    expect(waited).toMatchObject({ exitCode: 0, answer: { started: true, state: 'delivered' } });
    expect(receiver.received.map(({ body }) => body.toString())).toEqual(['{ "a": 1 }', '{ "b": 2 }']);
  });

  test('R90 status, list and payment', async () => {
    await withEndpoint();
    await handOver('slow', 404, 'refund.completed', merchantId);
    await handOver('failed', 404);
    await handOver('fine', 200, kyc, merchantId);
    const status = await both('status', merchantId, 'slow');
    expect(status.words).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('slow step 1 of 5') });
    expect(status.answer).toMatchObject({ state: 'waiting-slow', attempts: 1, lastVerdict: { status: 404 } });
    expect(await cli.run(['status', merchantId, 'failed', '--wait'])).toMatchObject({ exitCode: 6 });

    await untilListed(client, merchantId, 'ExecutionStatus = "Failed"', 1);
    await untilListed(client, merchantId, 'ExecutionStatus = "Completed"', 1);
    const all = await both('list', '--merchant', merchantId);
    expect(all.words.stdout).toMatch(/MERCHANT +WEBHOOK +EVENT +STATE/);
    for (const line of [/slow .*waiting-slow/, /failed .*failed .*rejected; HTTP 404/, /fine .*delivered/]) {
      expect(all.words.stdout).toMatch(line);
    }
    const states = (answer: unknown) =>
      (answer as { webhookId: string; state: string }[]).map((each) => `${each.webhookId} ${each.state}`);
    expect(states(all.answer).toSorted()).toEqual(['failed failed', 'fine delivered', 'slow waiting-slow']);
    const some = ['--state', 'failed', '--type', kyc, '--since', '1h', '--ended-since', '1h', '--limit', '5'];
    expect(states((await cli.json(['list', '--merchant', merchantId, ...some])).answer)).toEqual([
      'failed failed',
    ]);
    expect(await cli.run(['list', '--merchant', merchantId, '--type', 'x.y'])).toMatchObject({
      exitCode: 0,
      stdout: 'no delivery\n',
    });
    expect((await cli.run(['payment', freshMerchant()])).stdout).toMatch(
      /^nothing is known of payment \S+: check/,
    );
    expect(await cli.run(['status', 'slow', merchantId])).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining(`the other way round: hookladder status ${merchantId} slow`),
    });
    expect((await cli.run(['status', merchantId, 'failed'])).stdout).toContain(
      'rejected (4xx; not a money event, so not tried again)',
    );

    const payment = await both('payment', merchantId);
    expect(states(payment.answer).toSorted()).toEqual(['fine delivered', 'slow waiting-slow']);
    expect(payment.words.stdout.split('\n').filter((line) => line.includes(merchantId))).toHaveLength(2);
    await client.hooks.delivery(merchantId, 'slow').cancel();
  });

  test('R81 R90 what failed, also where it was started anew since, and how many of which merchant', async () => {
    await withEndpoint();
    for (const webhookId of ['failed', 'again']) await handOver(webhookId, 404);
    receiver.answer(() => 200);
    const again = client.hooks.delivery(merchantId, 'again');
    await again.redeliver();
    await again.result();
    await untilListed(client, merchantId, 'ExecutionStatus = "Failed"', 2);
    const failed = ['list', '--merchant', merchantId, '--state', 'failed', '--ended-since', '1h'];
    const { words, answer } = await both(...failed);
    expect(words).toMatchObject({
      stdout: expect.not.stringContaining('again'),
      stderr: '1 more ended as failed and were started anew since: --all-runs\n',
    });
    expect(answer).toMatchObject([{ webhookId: 'failed' }]);
    const all = await cli.run([...failed, '--all-runs']);
    expect(all).toMatchObject({ stdout: expect.stringMatching(/again .*delivered/), stderr: '' });
    const counts = await both(...failed, '--count-by', 'merchant');
    expect(counts.words.stdout).toMatch(new RegExp(`FAILED +STARTED ANEW SINCE\n${merchantId} +1 +1\n`));
    expect(counts.answer).toEqual([{ merchantId, count: 1, startedAnewSince: 1 }]);
  });

  test('R53 status of a paused webhook says who paused and why', async () => {
    await withEndpoint();
    await client.hooks.merchant(merchantId).pause(cause);
    await client.hooks.deliver({ merchantId, webhookId: 'w1', type: kyc, body: '{}' });
    await untilState('w1', 'held-paused');
    const { words, answer } = await both('status', merchantId, 'w1');
    expect(words.stdout).toMatch(/the merchant is paused by ann since \S+: their deploy is fixed/);
    expect(answer).toMatchObject({ paused: { ...cause, since: expect.any(String) } });
    expect((await cli.run(['merchant', 'resume', merchantId])).stdout).toMatch(
      /^resumed; the held deliveries go/,
    );
    await client.hooks.delivery(merchantId, 'w1').result();
  });

  test('R83 try-now', async () => {
    await withEndpoint();
    await handOver('w1', 404, 'refund.completed');
    const { words, answer, exitCode } = await inTurn('try-now', merchantId, 'w1', ...why);
    expect(words).toMatchObject({
      exitCode: 6,
      stdout: expect.stringContaining('without success: HTTP 404'),
    });
    expect([exitCode, answer]).toEqual([6, expect.objectContaining({ outcome: 'pause-goes-on' })]);
    receiver.answer(() => 200);
    expect(await cli.run(['try-now', merchantId, 'w1'])).toMatchObject({ exitCode: 0 });
    expect(await client.hooks.delivery(merchantId, 'w1').result()).toMatchObject({
      interventions: [{ what: 'try-now', ...cause }, { ...cause }, { what: 'try-now' }],
    });
    expect(await cli.json(['try-now', merchantId, 'w1'])).toMatchObject({
      exitCode: 6,
      answer: { outcome: 'ended' },
    });
  });

  test('R81 redeliver: its three outcomes', async () => {
    await withEndpoint();
    await handOver('w1', 404);
    receiver.answer(() => 200);
    const started = await cli.json(['redeliver', merchantId, 'w1', '--wait', ...why]);
    expect(started).toMatchObject({ exitCode: 0, answer: { outcome: 'started', state: 'delivered' } });
    const refused = await both('redeliver', merchantId, 'w1');
    expect(refused.words).toMatchObject({ exitCode: 6, stdout: expect.stringContaining('--force') });
    expect(refused).toMatchObject({ exitCode: 6, answer: { outcome: 'needs-force', existing: 'delivered' } });
    expect(await cli.run(['redeliver', merchantId, 'w1', '--force'])).toMatchObject({
      exitCode: 0,
      stdout: 'started anew, with the same id and body\n',
    });
    await handOver('w2', 404, 'refund.completed');
    expect(await cli.json(['redeliver', merchantId, 'w2'])).toMatchObject({
      exitCode: 6,
      answer: { outcome: 'open', tryNow: { outcome: 'pause-goes-on' } },
    });
    await client.hooks.delivery(merchantId, 'w2').cancel();
  });

  test('R82 cancel', async () => {
    await withEndpoint();
    for (const webhookId of ['w1', 'w2']) await handOver(webhookId, 404, 'refund.completed');
    const words = await cli.run(['cancel', merchantId, 'w1', ...why]);
    expect(words).toMatchObject({ exitCode: 0 });
    expect(words.stdout).toMatch(/cancelled at .* by ann .*their deploy is fixed/);
    const answer = { state: 'cancelled', interventions: [{ what: 'cancel', ...cause }] };
    expect(await cli.json(['cancel', merchantId, 'w2', ...why])).toMatchObject({ exitCode: 0, answer });
  });

  test('one that nobody knows, or of a merchant that nobody knows', async () => {
    const merchant = freshMerchant();
    const ofMerchant = [['list'], ['redeliver', '--all', '--yes'], ['cancel', '--all', '--dry-run']];
    for (const command of ofMerchant) {
      expect(await cli.run([...command, '--merchant', merchant])).toMatchObject({
        exitCode: 3,
        stdout: '',
        stderr: expect.stringContaining(`nothing is known of merchant ${merchant}`),
      });
    }
    const commands = ['status', 'try-now', 'redeliver', 'cancel'];
    const runs = await Promise.all(commands.map((command) => cli.json([command, merchantId, 'never'])));
    const unknown = { exitCode: 3, answer: { error: { code: 'DELIVERY_NOT_FOUND' } } };
    expect(runs).toMatchObject(commands.map(() => unknown));
  });
});

describe('many webhooks', () => {
  test('R81 redeliver --all: dry run first, then with --yes; R82 cancel --all; bulk show and stop', async () => {
    await withEndpoint();
    for (const webhookId of ['w1', 'w2', 'w3']) await handOver(webhookId, 404);
    await untilListed(client, merchantId, 'ExecutionStatus = "Failed"', 3);
    receiver.answer(() => 404);
    const all = ['redeliver', '--all', '--merchant', merchantId, '--ended-since', '1h'];
    const asked = await cli.run(all);
    expect(asked).toMatchObject({ exitCode: 6, stderr: expect.stringContaining('--yes') });
    expect(asked.stdout).toMatch(/^would redeliver 3; looked at 3\n/);
    const dryRun = await cli.json([...all, '--dry-run']);
    expect(dryRun).toMatchObject({ exitCode: 0, answer: { dryRun: true, done: 3 } });
    expect(receiver.received).toHaveLength(3);

    const listed = (await cli.json(['bulk', 'list'])).answer;
    expect(listed).toContainEqual({ id: expect.stringMatching(/:dry-run$/), progress: dryRun.answer });
    const done = await cli.json([...all, '--yes', '--per-second', '50', ...why]);
    expect(done).toMatchObject({ exitCode: 0, answer: { done: 3, skipped: {}, ...cause } });
    await untilListed(client, merchantId, 'ExecutionStatus = "Failed"', 6);
    const detached = await cli.run([...all, '--yes', '--detach', '--per-second', '0.1']);
    expect(detached).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^bulk:redeliver:\w+\n$/) });
    const id = detached.stdout.trim();
    const joined = await cli.run([...all, '--yes', '--detach']);
    expect(joined).toMatchObject({ stdout: `${id}\n`, stderr: expect.stringContaining('joined') });
    expect(await cli.json(['bulk', 'show', id])).toMatchObject({
      exitCode: 0,
      answer: { command: 'redeliver' },
    });
    expect(await cli.run(['bulk', 'stop', id])).toMatchObject({ exitCode: 0 });
    expect((await cli.run(['bulk', 'show', id, '--wait'])).stdout).toMatch(/^redelivered \d; looked at/);

    await client.hooks.merchant(merchantId).removeEndpoint();
    const held = { merchantId: freshMerchant(), webhookId: 'h', type: 'x', body: '{}' };
    await client.hooks.deliver(held);
    ({ merchantId } = held);
    await untilListed(client, merchantId, 'ExecutionStatus = "Running"', 1);
    await untilState('h', 'held-no-endpoint');
    const cancel = ['cancel', '--all', '--merchant', merchantId, '--state', 'held'];
    expect((await cli.run([...cancel, '--dry-run'])).stdout).toMatch(/^would cancel 1;/);
    expect(await cli.json([...cancel, '--yes', ...why])).toMatchObject({ exitCode: 0, answer: { done: 1 } });
    expect(await client.hooks.delivery(merchantId, 'h').result()).toMatchObject({ state: 'cancelled' });
  }, 120_000);

  test('a bulk command that nobody knows', async () => {
    for (const command of ['show', 'stop']) {
      expect(await cli.json(['bulk', command, 'bulk:never'])).toMatchObject({
        exitCode: 3,
        answer: { error: { code: 'BULK_NOT_FOUND' } },
      });
    }
  });
});

describe('merchants', () => {
  test('set, show, rotate-secret, promote-secret, pause, resume, unset: with who and why', async () => {
    const merchant = (command: string, ...args: string[]) => ['merchant', command, merchantId, ...args];
    const secretFile = join(folder, 'secret');
    const headersFile = join(folder, 'headers.json');
    await writeFile(secretFile, `${secret}\n`);
    await writeFile(headersFile, '{"x-tenant": "very-private"}');
    const url = ['--url', receiver.url, '--allow-http'];
    const set = await cli.run(merchant('set', ...url, '--secret-file', '-', ...why), {
      input: `${secret}\n`,
    });
    expect(set).toEqual({ exitCode: 0, stdout: 'done\n', stderr: '' });
    const again = ['--secret-file', secretFile, '--headers-file', headersFile, ...why];
    expect(await cli.json(merchant('set', ...url, ...again))).toMatchObject({
      exitCode: 0,
      answer: { applied: true },
    });
    for (const [command, ...args] of [
      ['rotate-secret', '--secret', 'the secret that follows', '--keep-old-for', '7 days'],
      ['promote-secret'],
      ['pause'],
    ] as const) {
      expect(await cli.json(merchant(command, ...args, ...why))).toMatchObject({ exitCode: 0 });
    }
    const moved = merchant('set', '--url', `${receiver.url}moved`, '--allow-http', ...why);
    expect(await cli.run(moved)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('x-tenant') });
    const headers = ['--headers-file', headersFile];
    expect(await cli.json([...moved, ...headers])).toMatchObject({ exitCode: 0, answer: { applied: true } });
    const { words, answer, text } = await both(...merchant('show'));
    expect(words.stdout).toContain(
      `address-set by ann: their deploy is fixed (${receiver.url} → ${receiver.url}moved)`,
    );
    expect(words.stdout).toMatch(/paused by ann/);
    expect(words.stdout).toContain('x-tenant');
    expect(answer).toMatchObject({
      gate: { paused: cause, endpoint: { url: `${receiver.url}moved`, headers: ['x-tenant'] } },
    });
    expect(words.stdout + text).not.toMatch(/very-private|a secret of|sealed/);
    for (const [command, done] of [
      ['resume', 'resumed'],
      ['unset', 'done: all deliveries are held'],
    ] as const) {
      expect(await cli.run(merchant(command, ...why))).toMatchObject({
        exitCode: 0,
        stdout: expect.stringContaining(done),
      });
    }
    const events = ['address-set', 'endpoint-set', 'secret-rotated', 'secret-promoted', 'paused'];
    const status = await client.hooks.merchant(merchantId).breaker();
    expect(status?.transitions).toMatchObject(
      [...events, 'address-set', 'resumed', 'address-removed'].map((event) =>
        Object.assign({ event }, cause),
      ),
    );
    expect(await cli.json(merchant('promote-secret'))).toMatchObject({ exitCode: 6 });
    expect(await cli.json(['merchant', 'show', freshMerchant()])).toMatchObject({
      exitCode: 3,
      answer: { error: { code: 'MERCHANT_NOT_FOUND' } },
    });
  });

  test('doctor examines the endpoint that is set, with its secret and headers', async () => {
    const custom = { headers: { Authorization: 'Bearer of the endpoint' } };
    await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret, ...custom });
    receiver.answer((_, { headers }) => (headers.authorization === 'Bearer of the endpoint' ? 200 : 403));
    const args = ['doctor', '--merchant', merchantId, '--only', 'signature-right,signature-wrong'];
    const { exitCode, answer, text } = await cli.json(args);
    expect({ exitCode, answer }).toMatchObject({
      exitCode: 8,
      answer: {
        url: receiver.url,
        checks: [{ verdict: 'ok' }, { verdict: 'fault', seen: expect.stringContaining('HTTP 200') }],
      },
    });
    expect(text).not.toMatch(/Bearer|a secret of 20/);
    expect(await cli.json(['doctor', '--merchant', freshMerchant()])).toMatchObject({ exitCode: 3 });
  });

  test('test', async () => {
    await withEndpoint();
    const { words, answer } = await both('merchant', 'test', merchantId);
    expect(words).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('it works: HTTP 200') });
    expect(answer).toMatchObject({ merchantId, verdict: { kind: 'delivered' } });
    receiver.answer(() => 403);
    expect(await cli.run(['merchant', 'test', merchantId])).toMatchObject({
      exitCode: 6,
      stdout: expect.stringContaining('it does not work: HTTP 403'),
    });
    expect(await cli.json(['merchant', 'test', freshMerchant()])).toMatchObject({
      exitCode: 3,
      answer: { error: { code: 'NO_ENDPOINT' } },
    });
  });

  test('export and import', async () => {
    await withEndpoint();
    const file = join(folder, 'export.json');
    const exported = await cli.json(['merchant', 'export', merchantId]);
    expect(exported).toMatchObject({
      exitCode: 0,
      answer: { endpoints: [{ merchantId, url: receiver.url }] },
    });
    expect(exported.text).not.toContain(secret);
    expect(await cli.run(['merchant', 'export', merchantId, '--output', file])).toMatchObject({
      stdout: `1 endpoint in ${file}\n`,
    });
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(exported.answer);
    await client.hooks.merchant(merchantId).removeEndpoint();
    expect(await cli.run(['merchant', 'import', file, '--allow-http', ...why])).toMatchObject({
      exitCode: 0,
      stdout: '1 of 1 endpoint set\n',
    });
    expect(await client.hooks.merchant(merchantId).describe()).toMatchObject({
      endpoint: { url: receiver.url },
    });
    // Without --allow-http its plain URL is refused.
    const refused = await cli.json(['merchant', 'import', '-'], { input: await readFile(file, 'utf8') });
    expect(refused).toMatchObject({
      exitCode: 6,
      answer: [{ merchantId, error: expect.stringContaining('https') }],
    });
  });
});

describe('breakers', () => {
  test('R49 list, show, reset of one and of all since a time', async () => {
    await withEndpoint();
    const open = async (): Promise<void> => {
      receiver.answer(() => 500);
      const webhooks = Array.from({ length: 5 }, () => ({ merchantId, type: 'x', body: '{}' }));
      await client.hooks.deliverMany(webhooks);
      await vi.waitFor(
        async () =>
          expect((await client.hooks.merchant(merchantId).breaker())?.gate.circuit.state).toBe('open'),
        { timeout: 30_000 },
      );
    };
    await open();
    const { words, answer } = await both('breaker', 'show', merchantId);
    expect(words.stdout).toMatch(/opened \(\d+ of \d+ failed\)/);
    expect(answer).toMatchObject({ gate: { circuit: { state: 'open' }, openedAt: expect.any(Number) } });
    await vi.waitFor(
      async () => {
        const list = await both('breaker', 'list');
        expect(list.words.stdout).toMatch(new RegExp(`${merchantId} +open +20`));
        expect(list.answer).toContainEqual(expect.objectContaining({ merchantId }));
      },
      { timeout: 30_000 },
    );
    receiver.answer(() => 200);
    expect(await cli.run(['breaker', 'reset', merchantId, ...why])).toMatchObject({
      exitCode: 0,
      stderr: expect.stringContaining(`hookladder merchant test ${merchantId}`),
    });
    expect((await client.hooks.merchant(merchantId).breaker())?.transitions).toContainEqual(
      expect.objectContaining({ event: 'reset', ...cause }),
    );
    // Another one: what the first has delivered since would count against its failures.
    merchantId = freshMerchant();
    await withEndpoint();
    await open();
    const openedAt = (await client.hooks.merchant(merchantId).breaker())?.gate.openedAt ?? 0;
    const since = ['breaker', 'reset', '--opened-since', new Date(openedAt).toISOString()];
    await vi.waitFor(
      async () => expect((await cli.json([...since, '--dry-run'])).answer).toMatchObject({ done: 1 }),
      { timeout: 30_000 },
    );
    receiver.answer(() => 200);
    expect(await cli.run([...since, '--yes', ...why])).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^reset 1; /),
    });
    expect((await client.hooks.merchant(merchantId).breaker())?.gate.circuit.state).toBe('closed');
    expect(await cli.json(['breaker', 'reset', freshMerchant()])).toMatchObject({ exitCode: 3 });
    await (await client.hooks.bulk({ command: 'cancel', filter: { merchantId } })).result();
  });
});

describe('watch', () => {
  test('once, in words and in JSON, and until Ctrl-C', async () => {
    await withEndpoint();
    await handOver('w1', 200);
    await untilListed(client, merchantId, 'ExecutionStatus = "Completed"', 1);
    const { words, answer } = await both('watch', merchantId, '--once');
    expect(words.stdout).toMatch(/breaker closed/);
    expect(words.stdout).toMatch(/last minute {2}\d+ accepted, \d+ delivered, 0 failed/);
    expect(words.stdout).toMatch(/w1 .*delivered .*HTTP 200/);
    expect(answer).toMatchObject({ merchant: { merchantId }, latest: [{ webhookId: 'w1' }] });

    const live = cli.start(['watch', merchantId, '--json', '--interval', '0.2']);
    let lines = 0;
    live.stdout?.on('data', (chunk: Buffer) => (lines += chunk.toString().split('\n').length - 1));
    await vi.waitFor(() => expect(lines).toBeGreaterThanOrEqual(2), { timeout: 30_000 });
    live.kill('SIGINT');
    await once(live, 'exit');
    expect(live.exitCode).toBe(0);
    expect(await cli.json(['watch', freshMerchant(), '--once'])).toMatchObject({ exitCode: 3 });
  });
});

/** Each command, with arguments that are right. */
const right: readonly (readonly string[])[] = [
  ['deliver', 'm', 'x', '--body', '{}'],
  ['status', 'm', 'w'],
  ['list'],
  ['payment', 'p'],
  ['redeliver', 'm', 'w'],
  ['redeliver', '--all', '--yes', '--detach'],
  ['cancel', 'm', 'w'],
  ['cancel', '--all', '--dry-run'],
  ['try-now', 'm', 'w'],
  ['merchant', 'set', 'm', '--url', 'https://192.0.2.1/', '--secret', secret],
  ['merchant', 'show', 'm'],
  ['merchant', 'rotate-secret', 'm', '--secret', secret],
  ['merchant', 'promote-secret', 'm'],
  ['merchant', 'pause', 'm'],
  ['merchant', 'resume', 'm'],
  ['merchant', 'unset', 'm'],
  ['merchant', 'test', 'm'],
  ['merchant', 'export'],
  ['breaker', 'show', 'm'],
  ['breaker', 'reset', 'm'],
  ['breaker', 'list'],
  ['bulk', 'list'],
  ['bulk', 'show', 'b'],
  ['bulk', 'stop', 'b'],
  ['watch', 'm', '--once'],
];

/** Runs many at a time, every other one with `--json`; both forms of one command are seen elsewhere. */
async function runAll(argLists: readonly (readonly string[])[], how: CliHow = {}) {
  return await pMap(
    argLists,
    async (args, index) => {
      if (index % 2 === 0) return { args, ...(await cli.run(args, how)) };
      const { exitCode, stdout, stderr } = await cli.run([...args, '--json'], how);
      const { error } = JSON.parse(stderr) as { error: { code: string; message: string } };
      expect(error.code).toMatch(/^[A-Z_]+$/);
      return { args, exitCode, stdout, stderr: error.message };
    },
    { concurrency: 4 },
  );
}

test('with Temporal away, each command says so with exit code 4', { timeout: 180_000 }, async () => {
  const away = ['--address', '127.0.0.1:1', '--timeout', '0.2'];
  const env = { HOOKLADDER_ALLOWED_NETWORKS: '192.0.2.0/24' };
  const stderr = expect.stringContaining('Temporal cannot be reached at 127.0.0.1:1 (') as string;
  const runs = await runAll(
    right.map((args) => [...args, ...away]),
    { env },
  );
  for (const { args, ...run } of runs) {
    expect({ args, ...run }).toEqual({ args, exitCode: 4, stdout: '', stderr });
  }
});

/** Each command, with an argument that is wrong, and what is said of it. */
const wrong: readonly (readonly [words: string, ...args: readonly string[]])[] = [
  ['by --body or by --body-file', 'deliver', 'm', 'x'],
  ['body must be JSON', 'deliver', 'm', 'x', '--body', 'paid'],
  ['webhookId must be', 'status', 'm', 'a b'],
  ['Allowed choices are', 'list', '--state', 'asleep'],
  ['since must be RFC 3339', 'list', '--since', 'noon'],
  ['paymentId must be at most', 'payment', 'p'.repeat(129)],
  ['--all takes a filter', 'redeliver', '--all', 'm', 'w'],
  ['perSecond must be at most 50', 'redeliver', '--all', '--yes', '--per-second', '100'],
  ['a merchant id and a webhook id', 'cancel'],
  ['must be one of', 'cancel', '--all', '--yes', '--state', 'failed'],
  ['missing required argument', 'try-now'],
  [
    'only one of them',
    'merchant',
    'set',
    'm',
    '--url',
    'https://x/',
    '--secret',
    secret,
    '--secret-file',
    'x',
  ],
  ['begin with https', 'merchant', 'set', 'm', '--url', 'http://192.0.2.1/', '--secret', secret],
  ['missing required argument', 'merchant', 'show'],
  ['keepOldFor must be', 'merchant', 'rotate-secret', 'm', '--secret', secret, '--keep-old-for', 'soon'],
  ['missing required argument', 'merchant', 'promote-secret'],
  ['unknown option', 'merchant', 'pause', 'm', '--because', 'x'],
  ['merchantId must be', 'merchant', 'resume', 'a b'],
  ['missing required argument', 'merchant', 'unset'],
  ['merchantId must be', 'merchant', 'test', 'a b'],
  ['merchantId must be', 'merchant', 'export', 'a b'],
  ['no JSON', 'merchant', 'import', '-'],
  ['missing required argument', 'breaker', 'show'],
  ['a merchant id or --opened-since', 'breaker', 'reset'],
  ['openedSince must be', 'breaker', 'reset', '--opened-since', 'noon', '--yes'],
  ['unknown option', 'breaker', 'list', '--open'],
  ["unknown command 'resume'", 'breaker', 'resume', 'm'],
  ['Allowed choices are', 'list', '--count-by', 'payment'],
  ['a number above 0', 'bulk', 'list', '--limit', '0'],
  ['webhookId needs merchantId', 'export', '--webhook', 'w'],
  ['missing required argument', 'bulk', 'show'],
  ['missing required argument', 'bulk', 'stop'],
  ['a number above 0', 'watch', 'm', '--interval', '0'],
  ['unknown option', 'worker', '--fast'],
  ['unknown option', 'up', '--fast'],
  ['unknown option', 'config', '--fast'],
];

test('with wrong arguments, each command says which with exit code 2', { timeout: 180_000 }, async () => {
  const runs = await runAll(wrong.map((line) => line.slice(1)));
  for (const [index, { args, ...run }] of runs.entries()) {
    const stderr = expect.stringContaining(wrong[index]?.[0] ?? '') as string;
    expect({ args, ...run }).toEqual({ args, exitCode: 2, stdout: '', stderr });
    expect(run.stderr).not.toContain(secret);
    // What is alike may do the opposite.
    expect(run.stderr).not.toContain('Did you mean');
  }
});

test('without a worker, a question says so with exit code 5', async () => {
  await workers.shutdown();
  await client.hooks.deliver({ merchantId, webhookId: 'w1', type: 'x', body: '{}' });
  expect(await cli.json(['status', merchantId, 'w1', '--timeout', '5'])).toMatchObject({
    exitCode: 5,
    answer: { error: { code: 'NO_WORKER' } },
  });
  await untilListed(client, merchantId, 'ExecutionStatus = "Running"', 1);
  const list = await cli.run(['list', '--merchant', merchantId, '--timeout', '5']);
  expect(list).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('no worker answers') });
  await client.temporal.workflow.getHandle(`delivery:${merchantId}:w1`).terminate();
  workers = await startTestWorkers();
});

test('help names each command, with examples; completion scripts are made and complete', async () => {
  const { stdout: help } = await cli.run(['--help']);
  for (const [command] of right) expect(help).toContain(`\n  ${command}`);
  expect(help).toContain('Exit codes: 0 done');
  for (const command of [['deliver'], ['merchant', 'set'], ['breaker', 'reset']]) {
    expect((await cli.run([...command, '--help'])).stdout).toContain('Examples:\n  hookladder');
  }
  expect((await cli.run(['completion', 'bash'])).stdout).toContain('bash completion for hookladder');
  expect((await cli.run(['complete', '--', 'merchant', ''])).stdout).toContain('rotate-secret');
});
