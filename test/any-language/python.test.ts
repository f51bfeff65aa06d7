import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, type TestContext } from 'vitest';
import { ENCODING } from '../../src/encryption/codec.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  connectTestClient,
  ENCRYPTION,
  freshMerchant,
  PLAIN,
  startTestWorkers,
  temporalAddress,
  type TestClient,
} from '../support/stack.ts';
import { documentedProgram } from './documented-program.ts';
import { pythonSdk, type PythonSdk } from './python-sdk.ts';
import { runProgram, type Ended } from './run-program.ts';
import { searchAttributesOf } from './started-delivery.ts';

const INSTALL_LIMIT_MS = 300_000;

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
let sdk: PythonSdk;
let folder: string;

beforeAll(async () => {
  sdk = await pythonSdk();
  client = await connectTestClient();
  workers = await startTestWorkers({ encryption: PLAIN });
  receiver = await startReceiver();
  folder = await mkdtemp(join(tmpdir(), 'hookladder-python-'));
  await writeFile(join(folder, 'keys'), ENCRYPTION.keys);
  await writeFile(join(folder, 'hookladder_codec.py'), await documentedProgram('python', 2));
}, INSTALL_LIMIT_MS);
afterAll(async () => {
  await workers.shutdown();
  await client.close();
  await receiver.close();
  await rm(folder, { recursive: true });
});

/** Runs the Python program of the document; where Python is missing the test is skipped, in CI it fails. */
async function runDocumented(
  context: TestContext,
  args: string[],
  input: string | Uint8Array,
  { encrypted = false }: { readonly encrypted?: boolean } = {},
): Promise<Ended> {
  if ('missing' in sdk) {
    const reason = `there is no Python with Temporal's SDK: ${sdk.missing}`;
    if (process.env['CI']) throw new Error(reason);
    // The default reporter keeps a skip's reason to itself.
    console.warn(`skipped: ${reason}`);
    return context.skip(reason);
  }
  const program = await documentedProgram('python');
  return await runProgram(sdk.python, ['-c', encrypted ? withCodec(program) : program, ...args], {
    input,
    env: {
      TEMPORAL_ADDRESS: temporalAddress(),
      HOOKLADDER_ENCRYPTION_KEYS_FILE: join(folder, 'keys'),
      PYTHONPATH: folder,
      PYTHONDONTWRITEBYTECODE: '1',
    },
  });
}

/** As the document says. */
function withCodec(program: string): string {
  const connecting = 'Client.connect(**target';
  expect(program).toContain(`${connecting})`);
  const changed = program.replace(connecting, `${connecting}, data_converter=data_converter()`);
  return `from hookladder_codec import data_converter\n${changed}`;
}

describe('the documented Python program', () => {
  test('R60 R61 R70 R80 hands over a webhook byte for byte, once, and tells its outcome', async (context) => {
    const merchantId = freshMerchant();
    await client.hooks
      .merchant(merchantId)
      .setEndpoint({ url: `${receiver.url}python`, secret: 'a secret of 20 bytes' });
    const args = [merchantId, 'evt-1', 'payment.status_changed', 'pay-7'];
    const body =
      '{ "status":"paid",\r\n\t"amount":10.50, "n":12345678901234567890, "name":"Jürgen 😀 <&> \\u00e9 \\/" }\n';

    const first = await runDocumented(context, args, body);
    const second = await runDocumented(context, args, body);

    expect(first).toEqual({ exitCode: 0, stdout: 'started\ndelivered in attempt 1\n', stderr: '' });
    expect(second).toEqual({ exitCode: 0, stdout: 'known already\ndelivered in attempt 1\n', stderr: '' });
    const [request, ...more] = receiver.received.filter(({ path }) => path === '/python');
    expect(more).toEqual([]);
    expect(request?.body.toString()).toBe(body);
    expect(request?.headers).toMatchObject({
      'content-type': 'application/json',
      'x-webhook-id': 'evt-1',
      'webhook-id': 'evt-1',
      'x-webhook-attempt': '1',
    });
    expect(await searchAttributesOf(client.temporal, `delivery:${merchantId}:evt-1`)).toEqual({
      WebhookMerchant: merchantId,
      WebhookEvent: 'payment.status_changed',
      WebhookPayment: 'pay-7',
      WebhookMoney: true,
    });
  });

  test('R3 R80 tells that the delivery FAILED, and why', async (context) => {
    const merchantId = freshMerchant();
    receiver.answer((_nth, { path }) => (path === '/rejects' ? 404 : 200));
    await client.hooks
      .merchant(merchantId)
      .setEndpoint({ url: `${receiver.url}rejects`, secret: 'a secret of 20 bytes' });

    const { stdout } = await runDocumented(
      context,
      [merchantId, 'evt-1', 'kyc.status_changed', 'pay-7'],
      '{}',
    );

    expect(stdout).toBe('started\nDeliveryFailed: rejected after 1 attempt; last answer: HTTP 404\n');
  });

  test('R71 tells what was wrong with the webhook', async (context) => {
    const { stdout } = await runDocumented(
      context,
      [freshMerchant(), 'evt-1', 'Payment Paid', 'pay-7'],
      'paid',
    );

    expect(stdout).toBe(
      'started\nInvalidDeliveryInput: ' +
        'type must be 1 to 128 characters of a-z, 0-9, ".", "_" and "-"; body must be JSON\n',
    );
  });
});

describe('the documented codec', () => {
  test('encrypts what Python hands over, and reads what encrypted workers tell', async (context) => {
    await workers.shutdown();
    workers = await startTestWorkers({ encryption: ENCRYPTION });
    const merchantId = freshMerchant();
    receiver.answer((_nth, { path }) => (path === '/rejects-all' ? 404 : 200));
    const secret = 'a secret of 20 bytes';
    await client.hooks.merchant(merchantId).setEndpoint({ url: `${receiver.url}encrypted`, secret });
    const body = '{"card":"4242424242424242"}';

    const args = [merchantId, 'evt-1', 'kyc.status_changed', 'pay-7'];
    const { stdout, stderr } = await runDocumented(context, args, body, { encrypted: true });
    expect([stderr, stdout]).toEqual(['', 'started\ndelivered in attempt 1\n']);
    expect(receiver.received.findLast(({ path }) => path === '/encrypted')?.body.toString()).toBe(body);
    const history = await client.temporal.workflow.getHandle(`delivery:${merchantId}:evt-1`).fetchHistory();
    const inputs = JSON.stringify(history.events?.[0]?.workflowExecutionStartedEventAttributes?.input);
    expect(inputs).toContain(Buffer.from(ENCODING).toString('base64'));

    // Another merchant: a worker may read a new address up to a second late.
    const strict = freshMerchant();
    await client.hooks.merchant(strict).setEndpoint({ url: `${receiver.url}rejects-all`, secret });
    const failing = [strict, 'evt-2', 'kyc.status_changed', 'pay-7'];
    const failed = await runDocumented(context, failing, body, { encrypted: true });
    expect(failed.stdout).toBe('started\nDeliveryFailed: rejected after 1 attempt; last answer: HTTP 404\n');
  });
});
