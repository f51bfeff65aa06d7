import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ExportedDelivery } from '../../src/client.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { buildCli, type Cli } from '../support/cli.ts';
import { untilListed } from '../support/many-deliveries.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const kyc = 'kyc.status_changed';
const body = '{"status":"paid","card":"4111 1111 1111 1111"}';
const cause = { by: 'ann', why: 'sent by mistake' };

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
  folder = await mkdtemp(join(tmpdir(), 'hookladder-export-'));
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
  receiver.answer(() => 200);
});

async function accepted(webhookId: string, type = kyc) {
  return (await client.hooks.deliver({ merchantId, webhookId, type, body, paymentId: 'pay_1' })).delivery;
}

/** What is printed, or what is in a file. */
async function exported(...args: string[]): Promise<ExportedDelivery[]> {
  const run = await cli.run(['export', '--merchant', merchantId, ...args]);
  expect(run).toMatchObject({ exitCode: 0 });
  return linesOf(run.stdout);
}

function linesOf(text: string): ExportedDelivery[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ExportedDelivery);
}

const names = (deliveries: readonly ExportedDelivery[]) =>
  deliveries.map(({ webhookId, state }) => `${webhookId} ${state}`).toSorted();

describe('export', () => {
  test('R80 R81 tells of each run that has ended what a dispute needs, without the body', async () => {
    await client.hooks
      .merchant(merchantId)
      .setEndpoint({ url: `${receiver.url}?token=7`, secret: 'a secret of 20 bytes' });
    receiver.answer((nth) => (nth < 2 ? [503, 404][nth] : 200) as number);
    const failing = await accepted('again');
    await failing.result();
    await failing.redeliver({ by: 'ann', why: 'mended' });
    await failing.result();
    receiver.answer(() => 404);
    const sleeping = await accepted('cancelled', 'refund.completed');
    await expect.poll(async () => (await sleeping.status()).state, { timeout: 30_000 }).toBe('waiting-slow');
    await sleeping.tryNow({ by: 'bob' });
    await accepted('open', 'refund.completed');
    await sleeping.cancel(cause);
    await sleeping.result();
    await untilListed(client, merchantId, 'ExecutionStatus != "Running"', 3);

    const text = (await cli.run(['export', '--merchant', merchantId])).stdout;
    const all = linesOf(text);
    expect(names(all)).toEqual(['again delivered', 'again failed', 'cancelled cancelled']);
    expect(text).not.toMatch(/4111|token/);
    expect(names(await exported('--webhook', 'again'))).toEqual(['again delivered', 'again failed']);
    const status = await cli.run(['status', merchantId, 'again']);
    expect(status.stdout).toContain(`hookladder export --merchant ${merchantId} --webhook again`);
    const [redelivered, failed, cancelled] = ['delivered', 'failed', 'cancelled'].map((state) =>
      all.find((each) => each.state === state),
    );
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(failed).toEqual({
      merchantId,
      webhookId: 'again',
      runId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      state: 'failed',
      reason: 'rejected',
      type: kyc,
      paymentId: 'pay_1',
      money: false,
      acceptedAt: time,
      endedAt: time,
      bodySha256: createHash('sha256').update(body).digest('hex'),
      bodyBytes: body.length,
      attempts: [
        {
          scheduledAt: time,
          startedAt: time,
          endedAt: time,
          url: receiver.url,
          verdict: expect.objectContaining({ kind: 'server-error', status: 503 }),
        },
        expect.objectContaining({ verdict: expect.objectContaining({ kind: 'rejected', status: 404 }) }),
      ],
      holds: [],
      interventions: [],
    });
    expect(redelivered).toMatchObject({
      firstAcceptedAt: failed?.acceptedAt,
      attempts: [{ verdict: { kind: 'delivered', status: 200 } }],
      interventions: [{ at: redelivered?.acceptedAt, what: 'redeliver', by: 'ann', why: 'mended' }],
    });
    expect(cancelled).toMatchObject({
      money: true,
      attempts: [{ verdict: { status: 404 } }, { verdict: { status: 404 } }],
      interventions: [
        { what: 'try-now', by: 'bob' },
        { what: 'cancel', ...cause },
      ],
    });

    expect(names(await exported('--state', 'failed', '--payment', 'pay_1', '--type', kyc))).toEqual([
      'again failed',
    ]);
    expect(await exported('--ended-until', '1h')).toEqual([]);
    const [withBody] = await exported('--state', 'failed', '--bodies');
    expect(withBody?.body).toBe(body);
    await client.hooks.delivery(merchantId, 'open').cancel();
  });

  test('R50 R82 tells of holds, and of what others ended', async () => {
    const held = await accepted('held');
    await expect.poll(async () => (await held.status()).state, { timeout: 30_000 }).toBe('held-no-endpoint');
    const { heldSince } = await held.status();
    await client.temporal.workflow.getHandle(held.workflowId).terminate('a mistake');
    await untilListed(client, merchantId, 'ExecutionStatus = "Terminated"', 1);
    expect(await exported()).toMatchObject([
      {
        state: 'cancelled',
        reason: 'terminated',
        attempts: [],
        holds: [{ since: heldSince, reason: 'no-endpoint' }],
        interventions: [{ what: 'terminate', why: 'a mistake' }],
      },
    ]);
  });

  test('goes on with a file that was broken off, and spoils none', async () => {
    await client.hooks
      .merchant(merchantId)
      .setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
    for (const id of ['w1', 'w2', 'w3']) await (await accepted(id)).result();
    await untilListed(client, merchantId, 'ExecutionStatus = "Completed"', 3);
    const file = join(folder, 'export.jsonl');
    const all = await exported('--output', file, '--json');
    expect(all).toEqual([]);
    const whole = await readFile(file, 'utf8');
    expect(names(linesOf(whole))).toEqual(['w1 delivered', 'w2 delivered', 'w3 delivered']);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await cli.run(['export', '--merchant', merchantId, '--output', file])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('--resume'),
    });

    await truncate(file, whole.length - 40);
    const resumed = await cli.run(['export', '--merchant', merchantId, '--output', file, '--resume']);
    expect(resumed).toMatchObject({ exitCode: 0, stderr: '1 exported, 2 were there\n' });
    expect(await readFile(file, 'utf8')).toBe(whole);

    await writeFile(file, 'a diary\n');
    const refused = await cli.run(['export', '--merchant', merchantId, '--output', file, '--resume']);
    expect(refused).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('is no export') });
    expect(await readFile(file, 'utf8')).toBe('a diary\n');
  });
});
