import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  Hookladder,
  InvalidEndpoint,
  MerchantNotFound,
  SecretKeyMissing,
  type EndpointSettings,
} from '../../src/client.ts';
import { merchantWorkflowId } from '../../src/contract.ts';
import { checkEndpointHost, checkEndpointSettings } from '../../src/endpoints.ts';
import { AddressGuard } from '../../src/http/address-guard.ts';
import { Resolver } from '../../src/http/resolver.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { startNameServer, type NameServer, type Records } from '../support/name-server.ts';
import {
  connectTestClient,
  freshMerchant,
  PLAIN,
  SECRET_KEYS,
  startTestWorkers,
  type TestClient,
} from '../support/stack.ts';

const url = 'https://merchant.example/hooks';
const secret = 'a secret of 20 bytes';

describe('R72 E12 the syntax of an endpoint', () => {
  test.each<[field: string, remedy: string, change: Partial<EndpointSettings>]>([
    ['url', 'absolute URL', { url: '/hooks' }],
    ['url', 'absolute URL', { url: 'merchant.example/hooks' }],
    ['url', 'begin with https://', { url: 'http://merchant.example/' }],
    ['url', 'begin with https://', { url: 'ftp://merchant.example/' }],
    ['url', 'begin with https://', { url: 'javascript:alert(1)' }],
    ['url', '1,024 characters', { url: `https://merchant.example/${'x'.repeat(1_000)}` }],
    ['url', 'user name or password', { url: 'https://user:p%40ss@merchant.example/' }],
    ['url', 'user name or password', { url: 'https://user@merchant.example/' }],
    ['url', 'control characters', { url: 'https://merchant.example/\thooks' }],
    ['url', 'control characters', { url: 'https://merchant.example/hooks\n' }],
    ['url', 'control characters', { url: 'https://merchant.example/\u0000' }],
    ['url', 'absolute URL', { url: 'https://' }],
    ['secret', '16 to 128 bytes', { secret: 'fifteen bytes!!' }],
    ['secret', '16 to 128 bytes', { secret: 'x'.repeat(129) }],
    ['secret', '16 to 128 bytes', { secret: 'я'.repeat(65) }],
    ['secret', 'base64', { secret: 'whsec_not base64 at all' }],
    ['secret', 'key of at least 16 bytes', { secret: 'whsec_ZmlmdGVlbiBieXRlcyEh' }],
    ['secret', 'padding', { secret: 'whsec_c2l4dGVlbiBieXRlcw' }],
    ['url', '1,024 characters', { url: `https://merchant.example/${'ü'.repeat(200)}` }],
    ['url', '1,024 characters', { url: `https://merchant.example/${'x'.repeat(4_000)}` }],
  ])('%s: %s', (field, remedy, change) => {
    const settings = { url, secret, ...change };
    let refusal: unknown;
    try {
      checkEndpointSettings(settings, false);
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toBeInstanceOf(InvalidEndpoint);
    expect(refusal).toMatchObject({
      code: 'INVALID_ENDPOINT',
      problems: [{ field, message: expect.stringContaining(remedy) }],
    });
    if (field !== 'url') expect(String(refusal)).not.toContain(settings.secret);
  });

  test.each([
    [url, url],
    ['https://merchant.example/hooks#part', url],
    ['https://merchant.example:8443/a?b=c#d', 'https://merchant.example:8443/a?b=c'],
    ['HTTPS://Merchant.Example', 'https://merchant.example/'],
    ['https://bücher.example/', 'https://xn--bcher-kva.example/'],
  ])('%s is taken as %s', (given, taken) => {
    expect(checkEndpointSettings({ url: given, secret }, false).url).toBe(taken);
  });

  test('plain http is taken where the deployment allows it', () => {
    expect(checkEndpointSettings({ url: 'http://127.0.0.1:8080/', secret }, true).url).toBe(
      'http://127.0.0.1:8080/',
    );
  });

  test.each(['sixteen bytes ok', 'x'.repeat(128), 'whsec_v7fsUCrexSlxIrZFE5th76j/M1snW5Wp'])(
    'a secret of %s',
    (fitting) => {
      expect(checkEndpointSettings({ url, secret: fitting }, false).secret).toBe(fitting);
    },
  );
});

describe('R72 E11 the host of an endpoint', () => {
  const guard = new AddressGuard({ allow: ['10.9.0.0/16'] });
  const names = new Map<string, Records>([
    ['inside.example', { ipv4: ['10.0.0.1'], ipv6: ['::1'] }],
    ['both.example', { ipv4: ['93.184.215.14', '10.0.0.1'] }],
    ['allowed.example', { ipv4: ['10.9.1.2'] }],
    ['failing.example', 'server-failure'],
    ['silent.example', 'silent'],
  ]);
  let dns: NameServer;
  let resolver: Resolver;
  beforeAll(async () => {
    dns = await startNameServer((name) => names.get(name) ?? 'not-found');
    resolver = new Resolver({ nameServers: [dns.address], hostsFile: '/nowhere' });
  });
  afterAll(async () => await dns.close());

  test.each<[host: string, reason: string]>([
    ['127.0.0.1', '127.0.0.1 is a loopback address'],
    ['0x7f.1', '127.0.0.1 is a loopback address'],
    ['[::ffff:10.0.0.1]', 'IPv4 address in IPv6 form'],
    ['169.254.169.254', 'link-local'],
    ['localhost.', 'the machine itself'],
    ['inside.example', '10.0.0.1 is a private address, ::1 is a loopback address'],
  ])('%s is refused: %s', async (host, reason) => {
    const refusal = await checkEndpointHost(`https://${host}/`, guard, resolver).catch(
      (error: unknown) => error,
    );
    expect(refusal).toMatchObject({
      code: 'INVALID_ENDPOINT',
      problems: [{ field: 'url', message: expect.stringContaining(reason) }],
    });
    expect(String(refusal)).toContain('HOOKLADDER_ALLOWED_NETWORKS');
  });

  test.each(['93.184.215.14', '[2606:4700:4700::1111]', '10.9.1.2', 'both.example', 'allowed.example'])(
    '%s is taken',
    async (host) => {
      expect(await checkEndpointHost(`https://${host}/`, guard, resolver)).toEqual({});
    },
  );

  test.each([
    ['unknown.example', 'ENOTFOUND', undefined],
    ['failing.example', 'ESERVFAIL', undefined],
    ['silent.example', 'no answer within 0.1 s', 100],
  ])('%s, which does not resolve now, is taken with a warning: %s', async (host, how, withinMs) => {
    expect(await checkEndpointHost(`https://${host}/`, guard, resolver, withinMs)).toEqual({
      warning: `${host} does not resolve now (${how})`,
    });
  });

  test('a network that is no CIDR is refused when the client is made', () => {
    expect(() => new Hookladder({ allowedNetworks: ['10.0.0.1'] })).toThrow(
      'allowedNetworks: "10.0.0.1" is not a CIDR',
    );
  });
});

describe('a merchant', () => {
  let client: TestClient;
  let workers: RunningWorkers;
  beforeAll(async () => {
    client = await connectTestClient(undefined, PLAIN);
    workers = await startTestWorkers({ encryption: PLAIN });
  });
  afterAll(async () => {
    await workers.shutdown();
    await client.close();
  });

  test('R50 is described without its secrets, before and after an address is set and removed', async () => {
    const merchantId = freshMerchant();
    const merchant = client.hooks.merchant(merchantId);
    expect(await merchant.describe()).toEqual({ merchantId, held: 0, draining: false });
    expect(await merchant.setEndpoint({ url, secret })).toMatchObject({ applied: true });
    expect(await merchant.describe()).toEqual({
      merchantId,
      endpoint: { url, headers: [] },
      held: 0,
      draining: false,
    });
    expect(await merchant.removeEndpoint()).toEqual({ applied: true });
    expect(await merchant.describe()).toEqual({ merchantId, held: 0, draining: false });
  });

  test('never has its secret in clear in its history or memo', async () => {
    const merchantId = freshMerchant();
    await client.hooks.merchant(merchantId).setEndpoint({ url, secret: 'clear-text-secret-0001' });
    const handle = client.temporal.workflow.getHandle(merchantWorkflowId(merchantId));
    const everything = JSON.stringify([await handle.fetchHistory(), (await handle.describe()).raw]);
    expect(everything).not.toContain('clear-text-secret-0001');
    expect(everything).not.toContain(Buffer.from('clear-text-secret-0001').toString('base64').slice(4, 20));
  });

  test('without a key to seal secrets with, setting an endpoint is a typed error', async () => {
    const hooks = new Hookladder({ client: client.temporal });
    await expect(hooks.merchant('m').setEndpoint({ url, secret })).rejects.toBeInstanceOf(SecretKeyMissing);
  });

  test('R72 E11 at an address that is not public is refused unless the deployment allows it', async () => {
    const hooks = new Hookladder({
      client: client.temporal,
      secretKeys: SECRET_KEYS,
      allowHttp: true,
      allowedNetworks: [],
    });
    const merchantId = freshMerchant();
    await expect(
      hooks.merchant(merchantId).setEndpoint({ url: 'http://127.0.0.1:8080/', secret }),
    ).rejects.toThrow('127.0.0.1 is a loopback address');
    expect(await hooks.merchant(merchantId).describe()).not.toHaveProperty('endpoint');
  });

  test('R49 R53 that nobody knows is not reset, paused or resumed by mistake', async () => {
    const unknown = client.hooks.merchant(freshMerchant());
    for (const act of [() => unknown.resetBreaker(), () => unknown.pause(), () => unknown.resume()]) {
      await expect(act()).rejects.toBeInstanceOf(MerchantNotFound);
    }
    expect(await unknown.breaker()).toBeUndefined();
  });

  test('tells its breaker without its secrets', async () => {
    const merchant = client.hooks.merchant(freshMerchant());
    await merchant.setEndpoint({ url, secret });
    const breaker = await merchant.breaker();
    expect(breaker).toMatchObject({
      gate: { endpoint: { url, headers: [] } },
      summary: `breaker closed; ${url}`,
    });
    expect(JSON.stringify(breaker)).not.toContain('sealed');
  });

  test('R71 with a malformed id is refused', () => {
    expect(() => client.hooks.merchant('a b')).toThrow(/merchantId must be 1 to 64/);
    expect(() => client.hooks.delivery('a b', '')).toThrow(/merchantId .*; webhookId /);
  });

  test('keeps its endpoint over continue-as-new, in the memo at every moment', async () => {
    const merchantId = freshMerchant();
    const handle = client.temporal.workflow.getHandle(merchantWorkflowId(merchantId));
    await client.temporal.workflow.start('merchantBreaker', {
      workflowId: merchantWorkflowId(merchantId),
      taskQueue: 'hookladder-merchants',
      args: [{ merchantId, signalsPerRun: 3 }],
    });
    const merchant = client.hooks.merchant(merchantId);
    const runs = new Set<string>();
    for (let index = 0; runs.size < 4; index++) {
      await merchant.setEndpoint({ url: `${url}/${index}`, secret });
      const { memo, runId } = await handle.describe();
      runs.add(runId);
      expect(memo).toMatchObject({
        gate: { version: index + 1, epoch: index + 1, endpoint: { url: `${url}/${index}` } },
      });
      expect(await merchant.describe()).toMatchObject({ endpoint: { url: `${url}/${index}` } });
    }
  });

  test('is not lost to a cancellation from the UI', async () => {
    const merchantId = freshMerchant();
    const merchant = client.hooks.merchant(merchantId);
    await merchant.setEndpoint({ url, secret });
    await client.temporal.workflow.getHandle(merchantWorkflowId(merchantId)).cancel();
    expect(await merchant.setEndpoint({ url: `${url}/2`, secret })).toMatchObject({ applied: true });
    expect(await merchant.describe()).toMatchObject({ endpoint: { url: `${url}/2` } });
  });
});
