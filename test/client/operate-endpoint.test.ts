import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  Hookladder,
  InvalidExport,
  MerchantNotFound,
  NoEndpoint,
  OwnFault,
  type MerchantHandle,
} from '../../src/client.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const secret = 'a secret of 20 bytes';
const ann = { by: 'ann', why: 'they moved' };

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
let merchant: MerchantHandle;

beforeAll(async () => {
  client = await connectTestClient();
  workers = await startTestWorkers();
  receiver = await startReceiver();
});
afterAll(async () => {
  await workers.shutdown();
  await client.close();
  await receiver.close();
});
beforeEach(() => {
  merchant = client.hooks.merchant(freshMerchant());
  receiver.received.length = 0;
  receiver.answer(() => 200);
});

describe('a test event', () => {
  test('R61 R72 is signed and has the headers of the endpoint', async () => {
    await merchant.setEndpoint({ url: receiver.url, secret, headers: { 'x-tenant': '7' } });
    const { webhookId, verdict } = await merchant.sendTest();
    expect(verdict).toMatchObject({ kind: 'delivered', status: 200 });
    const [seen] = receiver.received;
    expect(JSON.parse(seen?.body.toString() ?? '')).toMatchObject({
      type: 'hookladder.test',
      merchant_id: merchant.merchantId,
    });
    const timestamp = String(seen?.headers['x-webhook-timestamp']);
    const signature = createHmac('sha256', secret)
      .update(`${timestamp}.`)
      .update(seen?.body ?? '');
    expect(seen?.headers).toMatchObject({
      'x-webhook-id': webhookId,
      'x-webhook-signature': signature.digest('hex'),
      'x-tenant': '7',
    });
  });

  test('R40 is no sample and is not sent again, whatever the answer', async () => {
    await merchant.setEndpoint({ url: receiver.url, secret });
    receiver.answer((nth) => (nth % 2 === 0 ? 500 : 'network'));
    for (let nth = 1; nth <= 6; nth += 1) {
      const { verdict } = await merchant.sendTest();
      expect(verdict.kind).toBe(nth % 2 === 1 ? 'server-error' : 'network');
      expect(receiver.received).toHaveLength(nth);
    }
    expect(await merchant.breaker()).toMatchObject({ samples: 0, gate: { circuit: { state: 'closed' } } });
  });

  test('passes the gate of a merchant that is paused, and resumes nothing', async () => {
    await merchant.setEndpoint({ url: receiver.url, secret });
    await merchant.pause(ann);
    expect((await merchant.sendTest()).verdict.kind).toBe('delivered');
    expect((await merchant.breaker())?.gate.paused).toMatchObject(ann);
  });

  test('needs an endpoint, and says when a secret cannot be opened', async () => {
    await expect(merchant.sendTest()).rejects.toBeInstanceOf(NoEndpoint);
    const others = new Hookladder({
      client: client.temporal,
      secretKeys: { keys: `other:${Buffer.alloc(32, 1).toString('base64')}` },
      allowHttp: true,
      allowedNetworks: ['127.0.0.0/8'],
    });
    await others.merchant(merchant.merchantId).setEndpoint({ url: receiver.url, secret });
    await expect(merchant.sendTest()).rejects.toBeInstanceOf(OwnFault);
    expect(receiver.received).toEqual([]);
  });
});

describe('R50 another address', () => {
  test('R63 keeps the secret and a rotation under way; held deliveries go there, signed as before', async () => {
    await merchant.setEndpoint({ url: `${receiver.url}old?token=1`, secret });
    await merchant.rotateSecret('the secret that follows');
    expect(await merchant.setUrl(`${receiver.url}new?token=2`, ann)).toEqual({ applied: true });
    await merchant.sendTest();
    const [seen] = receiver.received;
    const signed = (key: string) =>
      createHmac('sha256', key)
        .update(`${String(seen?.headers['x-webhook-timestamp'])}.`)
        .update(seen?.body ?? '')
        .digest('hex');
    expect(seen).toMatchObject({
      path: '/new?token=2',
      headers: {
        'x-webhook-signature': signed(secret),
        'x-webhook-signature-next': signed('the secret that follows'),
      },
    });
    expect((await merchant.breaker())?.transitions.at(-1)).toMatchObject({
      event: 'address-set',
      from: `${receiver.url}old`,
      to: `${receiver.url}new`,
      ...ann,
    });
  });

  test('R72 needs custom headers again, and says which; a merchant without a secret to keep is refused', async () => {
    await expect(merchant.setUrl(receiver.url)).rejects.toBeInstanceOf(MerchantNotFound);
    await merchant.setEndpoint({ url: receiver.url, secret, headers: { 'x-tenant': '7' } });
    await expect(merchant.setUrl(`${receiver.url}new`)).rejects.toThrow(
      /headers must be given again.*x-tenant/,
    );
    expect(await merchant.setUrl(receiver.url, ann)).toEqual({ applied: true });
    await merchant.setUrl(`${receiver.url}new`, { headers: { 'x-tenant': '8' } });
    await merchant.sendTest();
    expect(receiver.received.at(-1)).toMatchObject({ path: '/new', headers: { 'x-tenant': '8' } });
    await merchant.setUrl(receiver.url, { headers: {} });
    expect((await merchant.describe()).endpoint).toEqual({ url: receiver.url, headers: [] });
    await expect(merchant.setUrl('ftp://shop.example')).rejects.toThrow(/url must begin with/);
    await merchant.removeEndpoint();
    await expect(merchant.setUrl(receiver.url)).rejects.toBeInstanceOf(NoEndpoint);
  });
});

describe('an export', () => {
  test('R63 carries sealed secrets, headers and a rotation under way, and is taken back', async () => {
    await merchant.setEndpoint({ url: receiver.url, secret, headers: { 'x-tenant': '7' } });
    await merchant.rotateSecret('the secret that follows');
    const exported = JSON.parse(JSON.stringify(await merchant.exportEndpoint())) as Record<string, unknown>;
    expect(JSON.stringify(exported)).not.toContain(secret);
    await merchant.removeEndpoint();
    await merchant.importEndpoint(exported, ann);
    await merchant.sendTest();
    expect(receiver.received.at(-1)?.headers).toMatchObject({
      'x-tenant': '7',
      'x-webhook-signature-next': expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    const { next } = exported as { next: { promoteAt: number } };
    const promoteAt = (await merchant.breaker())?.gate.endpoint?.promoteAt ?? 0;
    expect(Math.abs(promoteAt - next.promoteAt)).toBeLessThan(60_000);
  });

  test.each<[string, (exported: Record<string, unknown>) => unknown]>([
    ['is of merchant', (exported) => ({ ...exported, merchantId: 'another' })],
    [
      'does not open',
      (exported) => ({ ...exported, secret: `${String(exported['secret']).slice(0, -6)}AAAAAA` }),
    ],
    ['not sealed', (exported) => ({ ...exported, secret: 'in clear, sixteen bytes' })],
    ['must be a sealed secret', ({ merchantId, url }) => ({ merchantId, url, secret: 7 })],
    ['is missing', ({ merchantId, secret: kept }) => ({ merchantId, secret: kept })],
    ['colour', (exported) => ({ ...exported, colour: 'blue' })],
    ['must be a JSON object', () => 'text'],
  ])('that %s is refused', async (words, change) => {
    await merchant.setEndpoint({ url: receiver.url, secret });
    const exported = { ...(await merchant.exportEndpoint()) };
    const refusal = await merchant.importEndpoint(change(exported)).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(InvalidExport);
    expect(String(refusal)).toContain(words);
    expect(String(refusal)).not.toContain('in clear');
  });

  test('of nothing is a typed error', async () => {
    await expect(merchant.exportEndpoint()).rejects.toBeInstanceOf(NoEndpoint);
  });
});

test('changes of an endpoint are kept with who and why', async () => {
  await merchant.setEndpoint({ url: receiver.url, secret }, ann);
  await merchant.setEndpoint({ url: receiver.url, secret: 'another secret, also long' }, { by: 'bob' });
  await merchant.setEndpoint({ url: receiver.url, secret });
  await merchant.rotateSecret('the secret that follows', ann);
  await merchant.promoteSecret({ by: 'bob' });
  await merchant.removeEndpoint(ann);
  const at = expect.any(Number) as number;
  expect((await merchant.breaker())?.transitions).toEqual([
    { at, event: 'address-set', to: receiver.url, ...ann },
    { at, event: 'endpoint-set', by: 'bob' },
    { at, event: 'secret-rotated', ...ann },
    { at, event: 'secret-promoted', by: 'bob' },
    { at, event: 'address-removed', ...ann },
  ]);
});

test('merchants are listed by what they have published, without their secrets', async () => {
  const { merchantId } = merchant;
  const ours = async (notClosed: boolean) => {
    const listed = await Array.fromAsync(client.hooks.merchants({ notClosed }));
    return listed.filter((each) => each.merchantId === merchantId);
  };
  await merchant.setEndpoint({ url: receiver.url, secret });
  const eventually = async (check: () => Promise<void>) => await vi.waitFor(check, { timeout: 30_000 });
  await eventually(async () =>
    expect(await ours(false)).toMatchObject([
      { gate: { circuit: { state: 'closed' }, endpoint: { url: receiver.url, headers: [] } } },
    ]),
  );
  expect(JSON.stringify(await ours(false))).not.toContain('sealed');
  expect(await ours(true)).toEqual([]);
  await merchant.pause(ann);
  await eventually(async () => expect(await ours(true)).toMatchObject([{ gate: { paused: ann } }]));
});
