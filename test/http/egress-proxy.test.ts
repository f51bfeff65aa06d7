import { describe, expect, test } from 'vitest';
import { AddressGuard } from '../../src/http/address-guard.ts';
import { SendingFault } from '../../src/http/network-failures.ts';
import { createAuthority } from '../support/certificates.ts';
import { testProxy } from '../support/egress-proxy.ts';
import { nameServer, ok, postTo, receiver, senderFor } from '../support/posting.ts';

const HOST = 'shop.example';
const root = createAuthority('test root');
const proxyUrl = ({ port }: { port: number }, userinfo = '') =>
  new URL(`http://${userinfo}127.0.0.1:${port}`);

/** A sender behind a proxy, for which a name has these addresses. */
async function behind(egressProxy: URL, ipv4: readonly string[] = ['127.0.0.1'], guard?: AddressGuard) {
  const dns = await nameServer((name) => (name === HOST ? { ipv4 } : 'not-found'));
  return senderFor({
    egressProxy,
    nameServers: [dns.address],
    trustedCertificates: [root.pem],
    ...(guard === undefined ? {} : { guard }),
  });
}

describe('an egress proxy', () => {
  test('is told the address that was checked, and TLS is with the merchant', async () => {
    const { port, requests } = await receiver(ok, { tls: root.server({ hosts: [HOST] }) });
    const proxy = await testProxy();
    const sender = await behind(proxyUrl(proxy));
    const url = `https://${HOST}:${port}/`;
    expect(await postTo(url, { sender })).toMatchObject({
      kind: 'delivered',
      address: '127.0.0.1',
      timings: {
        dnsMs: expect.any(Number),
        proxyMs: expect.any(Number),
        connectMs: expect.any(Number),
        tlsMs: expect.any(Number),
        firstByteMs: expect.any(Number),
      },
    });
    // One tunnel serves several attempts.
    expect(await postTo(url, { sender })).toMatchObject({ kind: 'delivered', timings: { reused: true } });
    expect(proxy.targets).toEqual([`127.0.0.1:${port}`]);
    expect(requests()).toBe(2);
  });

  test('may be reached by TLS, with user and password', async () => {
    const { port } = await receiver(ok, { tls: root.server({ hosts: [HOST] }) });
    const proxy = await testProxy(() => 'tunnel', root.server({ hosts: ['127.0.0.1'] }));
    const url = new URL(`https://ann:p%40ss@127.0.0.1:${proxy.port}`);
    expect(await postTo(`https://${HOST}:${port}/`, { sender: await behind(url) })).toMatchObject({
      kind: 'delivered',
    });
    expect(proxy.authorizations).toEqual([`Basic ${Buffer.from('ann:p@ss').toString('base64')}`]);
  });

  test('carries plain http too', async () => {
    const { port } = await receiver(ok);
    const proxy = await testProxy();
    const sender = await behind(proxyUrl(proxy));
    expect(await postTo(`http://${HOST}:${port}/`, { sender })).toMatchObject({ kind: 'delivered' });
  });

  test('E11 R3 is not asked for a private address', async () => {
    const proxy = await testProxy();
    const sender = await behind(proxyUrl(proxy), ['10.0.0.1'], new AddressGuard());
    for (const host of [HOST, '127.0.0.1', '[::ffff:10.0.0.1]', 'localhost']) {
      expect(await postTo(`https://${host}/`, { sender })).toMatchObject({ kind: 'address-blocked' });
    }
    expect(proxy.targets).toEqual([]);
  });

  test('E10 goes on to the next address when it cannot reach one', async () => {
    const { port } = await receiver(ok, { host: '127.0.0.3' });
    const proxy = await testProxy();
    const sender = await behind(proxyUrl(proxy), ['127.0.0.2', '127.0.0.3']);
    expect(await postTo(`http://${HOST}:${port}/`, { sender })).toMatchObject({
      kind: 'delivered',
      address: '127.0.0.3',
    });
  });

  test.each([
    [502, 'unreachable'],
    [503, 'unreachable'],
    [504, 'connect-timeout'],
  ])('R2 that answers %i does not reach the merchant: %s', async (status, code) => {
    const proxy = await testProxy(() => status);
    const sender = await behind(proxyUrl(proxy));
    expect(await postTo(`https://${HOST}/`, { sender })).toMatchObject({
      kind: 'network',
      code,
      message: expect.stringContaining(`the egress proxy says HTTP ${status}`),
    });
  });

  test('R2 that is still connecting at the deadline: connect-timeout', async () => {
    const proxy = await testProxy(() => 'silent');
    const sender = await behind(proxyUrl(proxy));
    expect(await postTo(`https://${HOST}/`, { sender, timeoutMs: 500 })).toMatchObject({
      kind: 'network',
      code: 'connect-timeout',
    });
  });
});

describe('R6 a fault of the egress proxy is our own', () => {
  test.each<[string, number | 'hang up', RegExp]>([
    ['wants a password', 407, /refuses to connect to 127\.0\.0\.1:443: HTTP 407/],
    ['forbids it', 403, /HTTP 403/],
    ['breaks', 500, /HTTP 500/],
    ['hangs up', 'hang up', /did not answer/],
  ])('it %s', async (_, answer, message) => {
    const proxy = await testProxy(() => answer);
    const sender = await behind(proxyUrl(proxy, 'ann:secret@'));
    const failed = await postTo(`https://${HOST}/`, { sender }).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(SendingFault);
    expect(String(failed)).toMatch(message);
    expect(String(failed)).toContain(`127.0.0.1:${proxy.port}`);
    expect(String(failed)).not.toMatch(/ann|secret/);
  });

  test.each([
    ['nobody listens', async () => proxyUrl({ port: (await gone()).port })],
    ['its name does not exist', async () => new URL('http://proxy.invalid:3128')],
    ['its certificate is not trusted', async () => new URL(`https://127.0.0.1:${(await selfMade()).port}`)],
  ])('%s', async (_, where) => {
    const sender = await behind(await where());
    await expect(postTo(`https://127.0.0.1/`, { sender })).rejects.toThrow(
      /the egress proxy .* cannot be reached/,
    );
  });
});

async function gone() {
  const closed = await receiver(ok);
  await closed.close();
  return closed;
}

async function selfMade() {
  return await testProxy(() => 'tunnel', createAuthority('another root').server({ hosts: ['127.0.0.1'] }));
}
