import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { newKey } from '../../src/key-list.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  connectTestClient,
  freshMerchant,
  startTestWorkers,
  temporalAddress,
  type TestClient,
} from '../support/stack.ts';

const program = fileURLToPath(new URL('../../examples/service.ts', import.meta.url));

/** The example at work, and how to speak with it. */
interface Service {
  readonly child: ChildProcess;
  /** Resolves with the exit code once it has ended. */
  readonly ended: Promise<number | null>;
  call(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown }>;
}

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
let folder: string;
const running: Service[] = [];

beforeAll(async () => {
  client = await connectTestClient();
  workers = await startTestWorkers();
  receiver = await startReceiver();
  folder = await mkdtemp(join(tmpdir(), 'hookladder-service-'));
  await writeFile(join(folder, 'keys'), newKey('k1'));
});
afterEach(async () => {
  for (const { child, ended } of running.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
});
afterAll(async () => {
  await workers.shutdown();
  await client.close();
  await receiver.close();
  await rm(folder, { recursive: true });
});

async function startService(address = temporalAddress()): Promise<Service> {
  const child = spawn(process.execPath, [program], {
    env: {
      ...process.env,
      PORT: '0',
      TEMPORAL_ADDRESS: address,
      HOOKLADDER_SECRET_KEYS_FILE: join(folder, 'keys'),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<number | null>((resolve) => child.on('exit', resolve));
  let url = '';
  for await (const line of createInterface({ input: child.stdout })) {
    url = /^listening on (\S+)$/.exec(line)?.[1] ?? '';
    if (url !== '') break;
  }
  const service: Service = {
    child,
    ended,
    async call(method, path, body) {
      const init = { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
      const response = await fetch(`${url}${path}`, init);
      return { status: response.status, body: await response.json() };
    },
  };
  running.push(service);
  return service;
}

describe('the example of a service', () => {
  test('R60 R70 R90 hands over a webhook, once, and tells where it is', async () => {
    const service = await startService();
    const merchantId = freshMerchant();
    await client.hooks
      .merchant(merchantId)
      .setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
    const payment = { merchantId, amount: '10.50', currency: 'EUR' };

    const first = await service.call('POST', '/payments/pay-1/paid', payment);

    expect(first).toMatchObject({ status: 202, body: { webhookId: 'pay-1-paid', started: true } });
    await expect
      .poll(() => service.call('GET', `/webhooks/${merchantId}/pay-1-paid`))
      .toMatchObject({
        status: 200,
        body: { state: 'delivered', attempts: 1, paymentId: 'pay-1', money: true },
      });
    expect(receiver.received.map(({ body }) => body.toString())).toEqual([
      '{"paymentId":"pay-1","status":"paid","amount":"10.50","currency":"EUR"}',
    ]);
    expect(await service.call('POST', '/payments/pay-1/paid', payment)).toMatchObject({
      status: 202,
      body: { started: false, existing: 'delivered' },
    });
    expect(await service.call('POST', '/payments/pay-1/paid', { ...payment, amount: '11' })).toMatchObject({
      status: 409,
      body: { code: 'ID_CONFLICT' },
    });
  });

  test('R63 replaces a secret, and answers 409 where there is none', async () => {
    const service = await startService();
    const merchant = client.hooks.merchant(freshMerchant());
    const rotate = async (body: object) =>
      await service.call('POST', `/merchants/${merchant.merchantId}/rotation`, body);
    const secret = 'another of 21 bytes !';

    expect(await rotate({ secret })).toMatchObject({ status: 409, body: { code: 'NO_ENDPOINT' } });
    await merchant.setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
    expect(await rotate({ secret, keepOldFor: 'soon' })).toMatchObject({ status: 400 });
    expect(await rotate({ secret, keepOldFor: '7 days' })).toEqual({ status: 200, body: { applied: true } });
    expect((await merchant.describe()).endpoint).toHaveProperty('promoteAt');
  });

  test('R71 R72 answers 400 to what is refused, and 404 to what is not there', async () => {
    const service = await startService();

    expect(await service.call('POST', '/payments/pay-1/paid', { amount: '1' })).toMatchObject({
      status: 400,
      body: { code: 'INVALID_WEBHOOK', message: expect.stringContaining('merchantId must be a string') },
    });
    expect(await service.call('POST', '/payments/pay-1/paid', null)).toMatchObject({ status: 400 });
    expect(
      await service.call('PUT', '/merchants/shop-42/endpoint', {
        url: 'http://example.com/',
        secret: 'a secret of 20 bytes',
      }),
    ).toMatchObject({
      status: 400,
      body: { code: 'INVALID_ENDPOINT', message: expect.stringContaining('url must begin with https://') },
    });
    expect(await service.call('GET', `/webhooks/${freshMerchant()}/nothing`)).toMatchObject({
      status: 404,
      body: { code: 'DELIVERY_NOT_FOUND' },
    });
    expect(await service.call('GET', '/refunds/1')).toMatchObject({ status: 404 });
  });

  test('answers 503 while Temporal cannot be reached', async () => {
    // Nothing listens on port 1.
    const service = await startService('127.0.0.1:1');

    expect(
      await service.call('POST', '/payments/pay-1/paid', { merchantId: 'shop-42', amount: '1' }),
    ).toMatchObject({ status: 503, body: { code: 'TEMPORAL_UNAVAILABLE' } });
  });

  test.for(['SIGTERM', 'SIGINT'] as const)('ends cleanly on %s', async (signal) => {
    const service = await startService();
    await service.call('GET', `/webhooks/${freshMerchant()}/nothing`);

    service.child.kill(signal);

    expect(await service.ended).toBe(0);
  });
});
