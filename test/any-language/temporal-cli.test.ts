import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  connectTestClient,
  freshMerchant,
  PLAIN,
  startTestWorkers,
  temporalAddress,
  type TestClient,
} from '../support/stack.ts';
import { documentedProgram } from './documented-program.ts';
import { runProgram, type Ended } from './run-program.ts';
import { searchAttributesOf } from './started-delivery.ts';

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
let commands: string;

beforeAll(async () => {
  client = await connectTestClient();
  workers = await startTestWorkers({ encryption: PLAIN });
  receiver = await startReceiver();
  commands = await mkdtemp(join(tmpdir(), 'hookladder-cli-'));
  await symlink(inject('temporalBinary'), join(commands, 'temporal'));
});
afterAll(async () => {
  await workers.shutdown();
  await client.close();
  await receiver.close();
  await rm(commands, { recursive: true });
});

/** Runs a shell block of the document for another merchant than the one it names. */
async function runDocumented(nth: number, merchantId: string): Promise<Ended> {
  const script = (await documentedProgram('bash', nth)).replaceAll('shop-42', merchantId);
  return await runProgram('bash', ['-e', '-c', script], {
    env: {
      TEMPORAL_ADDRESS: temporalAddress(),
      PATH: `${commands}${delimiter}${process.env['PATH']}`,
    },
  });
}

describe('the documented `temporal` commands', () => {
  test('R60 R61 R80 start a delivery of the exact bytes and show its outcome', async () => {
    const merchantId = freshMerchant();
    await client.hooks
      .merchant(merchantId)
      .setEndpoint({ url: `${receiver.url}cli`, secret: 'a secret of 20 bytes' });

    const { exitCode, stdout, stderr } = await runDocumented(0, merchantId);

    expect(stderr).toBe('');
    expect(exitCode).toBe(0);
    expect(stdout).toContain('COMPLETED');
    expect(stdout).toContain('"state":"delivered"');
    const [request, ...more] = receiver.received.filter(({ path }) => path === '/cli');
    expect(more).toEqual([]);
    expect(request?.body.toString()).toBe('{"status":"paid","amount":"10.50"}');
    expect(request?.headers).toMatchObject({
      'content-type': 'application/json',
      'x-webhook-id': 'pay-1001-paid',
      'webhook-id': 'pay-1001-paid',
      'x-webhook-attempt': '1',
    });
    expect(await searchAttributesOf(client.temporal, `delivery:${merchantId}:pay-1001-paid`)).toEqual({
      WebhookMerchant: merchantId,
      WebhookEvent: 'payment.status_changed',
      WebhookPayment: 'pay-1001',
      WebhookMoney: true,
    });
  });

  test('R70 start nothing the second time, and say so', async () => {
    const merchantId = freshMerchant();
    await client.hooks
      .merchant(merchantId)
      .setEndpoint({ url: `${receiver.url}twice`, secret: 'a secret of 20 bytes' });
    await runDocumented(0, merchantId);

    const second = await runDocumented(0, merchantId);

    expect(second.exitCode).not.toBe(0);
    expect(second.stderr).toMatch(/already/);
    expect(receiver.received.filter(({ path }) => path === '/twice')).toHaveLength(1);
  });

  test('R82 R83 R90 ask an open delivery for its state, tell it to try now, and cancel it', async () => {
    const merchantId = freshMerchant();
    const { delivery } = await client.hooks.deliver({
      merchantId,
      webhookId: 'pay-1001-paid',
      type: 'payment.status_changed',
      body: '{"status":"paid"}',
    });
    await expect.poll(() => delivery.status()).toMatchObject({ state: 'held-no-endpoint' });

    const { exitCode, stdout, stderr } = await runDocumented(1, merchantId);

    expect(stderr).toBe('');
    expect(exitCode).toBe(0);
    expect(stdout).toContain('"state":"held-no-endpoint"');
    expect(await delivery.result()).toMatchObject({ state: 'cancelled', attempts: 0 });
  });

  test('R63 end the replacement of a secret, with who and why, and tell how the merchant stands', async () => {
    const merchant = client.hooks.merchant(freshMerchant());
    await merchant.setEndpoint({ url: `${receiver.url}cli`, secret: 'a secret of 20 bytes' });
    await merchant.rotateSecret('another of 21 bytes !');

    const { exitCode, stdout, stderr } = await runDocumented(2, merchant.merchantId);

    expect([stderr, exitCode]).toEqual(['', 0]);
    expect(stdout).toContain('secret-promoted');
    expect(stdout).toContain('they have changed over');
    expect((await merchant.describe()).endpoint).not.toHaveProperty('promoteAt');
  });
});
