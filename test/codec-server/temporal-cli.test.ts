import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { bearerAccess } from '../../src/codec-server/access.ts';
import { startCodecServer, type CodecRequest, type CodecServer } from '../../src/codec-server/server.ts';
import { merchantWorkflowId } from '../../src/contract.ts';
import { codecOf } from '../../src/encryption/encryption.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  connectTestClient,
  ENCRYPTION,
  freshMerchant,
  startTestWorkers,
  temporalAddress,
  type TestClient,
} from '../support/stack.ts';

const TOKEN = 'a-token-of-thirty-characters-x';
const CARD = '4242424242424242';
const merchantId = freshMerchant();
const requests: CodecRequest[] = [];

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
let codecServer: CodecServer;

beforeAll(async () => {
  client = await connectTestClient();
  workers = await startTestWorkers();
  receiver = await startReceiver((_, { headers }) => (headers['x-webhook-id'] === 'refused' ? 404 : 200));
  codecServer = await startCodecServer({
    codec: codecOf(ENCRYPTION),
    access: bearerAccess([{ name: 'ann', token: TOKEN }], undefined),
    host: '127.0.0.1',
    port: 0,
    origins: new Set(),
    hosts: new Set(['127.0.0.1']),
    onRequest: (request) => requests.push(request),
  });
  await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
  const webhook = { merchantId, type: 'kyc.status_changed', body: `{"card":"${CARD}"}` };
  for (const webhookId of ['arrived', 'refused']) {
    await (await client.hooks.deliver({ ...webhook, webhookId })).delivery.result();
  }
});
afterAll(async () => {
  await codecServer.close();
  await workers.shutdown();
  await client.close();
  await receiver.close();
});

async function temporal(args: readonly string[], token?: string): Promise<string> {
  const codec =
    token === undefined ? [] : ['--codec-endpoint', codecServer.url, '--codec-auth', `Bearer ${token}`];
  const options = { env: { ...process.env, TEMPORAL_ADDRESS: temporalAddress() } };
  const run = promisify(execFile)(inject('temporalBinary'), [...args, ...codec], options);
  const { stdout, stderr } = await run.catch((error: { stdout: string; stderr: string }) => error);
  return stdout + stderr;
}

const workflow = (id: string) => ['--workflow-id', `delivery:${merchantId}:${id}`];
const entity = ['--workflow-id', merchantWorkflowId(merchantId)];

describe('the `temporal` CLI, by the codec server', () => {
  test('shows a history and its summaries, which it does not without', async () => {
    const args = ['workflow', 'show', ...workflow('arrived'), '--detailed'];
    const decoded = await temporal(args, TOKEN);
    expect(decoded).toContain(CARD);
    expect(decoded).toContain('attempt 1');
    const stored = await temporal(args);
    expect(stored).not.toContain(CARD);
    expect(stored).not.toContain('attempt 1');
    expect(stored).toContain('encryption-key-id');
  });

  test('shows result, failure, state and description', async () => {
    expect(await temporal(['workflow', 'result', ...workflow('arrived')], TOKEN)).toContain('delivered');
    // Also without: what it FAILED of is no payload.
    expect(await temporal(['workflow', 'result', ...workflow('refused')])).toContain(
      'rejected after 1 attempt',
    );
    const query = ['workflow', 'query', '--type', 'status'];
    expect(await temporal([...query, ...workflow('refused')], TOKEN)).toContain('rejected');
    const described = await temporal(['workflow', 'describe', ...entity, '--output', 'json'], TOKEN);
    expect(described).toContain(receiver.url);
    expect(await temporal(['workflow', 'describe', ...entity, '--output', 'json'])).not.toContain(
      receiver.url,
    );
  });

  test.each([
    ['encoded by it', TOKEN],
    ['in clear', undefined],
  ])('R49 R53 signals whose input is %s are obeyed', async (_, token) => {
    const why = `sent ${token === undefined ? 'in clear' : 'encoded'}`;
    const signal = async (name: string) =>
      await temporal(
        ['workflow', 'signal', ...entity, '--name', name, '--input', JSON.stringify({ by: 'ann', why })],
        token,
      );
    expect(await signal('pause')).toContain('Signal workflow succeeded');
    await vi.waitFor(
      async () =>
        expect(await client.hooks.merchant(merchantId).breaker()).toMatchObject({
          gate: { paused: { why } },
        }),
      { timeout: 30_000 },
    );
    await signal('resume');
    await signal('resetBreaker');
    await vi.waitFor(
      async () => {
        const { transitions = [] } = (await client.hooks.merchant(merchantId).breaker()) ?? {};
        expect(transitions.filter((each) => each.why === why).map(({ event }) => event)).toContain('resumed');
      },
      { timeout: 30_000 },
    );
    const history = JSON.stringify(
      await client.temporal.workflow.getHandle(merchantWorkflowId(merchantId)).fetchHistory(),
    );
    const isClear = history.includes(
      Buffer.from(JSON.stringify({ by: 'ann', why }))
        .toString('base64')
        .slice(0, 32),
    );
    expect(isClear).toBe(token === undefined);
  });
});
