import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { AddressGuard } from '../../src/http/address-guard.ts';
import { SendingFault } from '../../src/http/network-failures.ts';
import { Resolver } from '../../src/http/resolver.ts';
import { hasFailed, meaningOf } from '../../src/policy/verdicts.ts';
import type { Records } from '../support/name-server.ts';
import { nameServer, ok, postTo, receiver, senderFor, stalledListener } from '../support/posting.ts';

const hasIpv6 = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ address }) => address === '::1'),
);
const HOST = 'shop.example';

async function postByName(records: Records, port: number, timeoutMs = 10_000) {
  const dns = await nameServer(() => records);
  const sender = senderFor({ nameServers: [dns.address] });
  return await postTo(`http://${HOST}:${port}/`, { sender, timeoutMs });
}

describe('E8 R2 a name that leads nowhere', () => {
  test.each<[string, string, string, Records]>([
    ['NXDOMAIN', 'dns-not-found', 'the host name does not exist', 'not-found'],
    ['SERVFAIL', 'dns-failed', 'the name servers report a failure (SERVFAIL)', 'server-failure'],
    ['REFUSED', 'dns-failed', 'the name servers refuse to answer (REFUSED)', 'refused'],
    ['an empty answer', 'dns-failed', 'the host name has no address (empty answer)', {}],
    ['silence', 'dns-failed', 'the name servers are silent', 'silent'],
  ])('%s: %s', async (_, code, message, records) => {
    const verdict = await postByName(records, 443);
    expect(verdict).toMatchObject({
      kind: 'network',
      code,
      message,
      hint: expect.stringContaining('webhook address'),
      timings: { dnsMs: expect.any(Number) },
    });
    expect(meaningOf(verdict, true)).toBe('fast-failure');
    expect(hasFailed(verdict)).toBe(true);
  });

  test.each<[string, Records]>([
    ['all are silent', 'silent'],
    ['there is no IPv4 address and IPv6 is silent', { ipv6: 'silent' }],
  ])('R5 a deadline that passes while %s: dns-failed', async (_, records) => {
    expect(await postByName(records, 443, 300)).toMatchObject({
      kind: 'network',
      code: 'dns-failed',
      message: 'the name servers are silent',
    });
  });

  test('R6 no name server of ours is there: a fault of our own', async () => {
    const gone = await nameServer(() => 'silent');
    await gone.close();
    const sender = senderFor({ nameServers: [gone.address] });
    await expect(postTo(`http://${HOST}/`, { sender })).rejects.toThrow(SendingFault);
  });

  test.each<[string, Records]>([
    ['fail', { ipv4: ['127.0.0.1'] }],
    ['are not answered', { ipv4: ['127.0.0.1'], ipv6: 'silent' }],
  ])('IPv6 addresses that %s do not keep it from an IPv4 address', async (_, records) => {
    const { port } = await receiver(ok);
    expect(await postByName(records, port)).toMatchObject({ kind: 'delivered', address: '127.0.0.1' });
  });
});

describe('names that DNS is not asked for', () => {
  test('localhost, with and without a dot', async () => {
    const { port } = await receiver(ok);
    const dns = await nameServer(() => 'not-found');
    const sender = senderFor({ nameServers: [dns.address] });
    for (const host of ['localhost', 'LOCALHOST.', 'shop.localhost']) {
      expect(await postTo(`http://${host}:${port}/`, { sender })).toMatchObject({ kind: 'delivered' });
    }
    expect(dns.asked).toEqual([]);
  });

  test('those of the hosts file', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hookladder-'));
    onTestFinished(async () => await rm(folder, { recursive: true }));
    const hostsFile = join(folder, 'hosts');
    await writeFile(
      hostsFile,
      '# ours\n10.1.2.3 Shop.internal shop # trailing\n10.1.2.4\tshop\n::1%lo broken\n',
    );
    const dns = await nameServer(() => ({ ipv4: ['192.0.2.1'] }));
    const resolver = new Resolver({ nameServers: [dns.address], hostsFile });
    const { signal } = new AbortController();
    expect(await resolver.resolve('shop', signal)).toEqual(['10.1.2.3', '10.1.2.4']);
    expect(await resolver.resolve('SHOP.internal.', signal)).toEqual(['10.1.2.3']);
    expect(await resolver.resolve('trailing', signal)).toEqual(['192.0.2.1']);
  });
});

describe('R6 a hosts file', () => {
  test('that is missing is empty; one that cannot be read is a fault of our own, each time anew', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hookladder-'));
    onTestFinished(async () => await rm(folder, { recursive: true }));
    const dns = await nameServer(() => ({ ipv4: ['192.0.2.1'] }));
    const { signal } = new AbortController();
    const hostsFile = join(folder, 'hosts');
    const missing = new Resolver({ nameServers: [dns.address], hostsFile });
    expect(await missing.resolve('shop', signal)).toEqual(['192.0.2.1']);
    await mkdir(hostsFile);
    const unreadable = new Resolver({ nameServers: [dns.address], hostsFile });
    await expect(unreadable.resolve('shop', signal)).rejects.toThrow(SendingFault);
    await rm(hostsFile, { recursive: true });
    await writeFile(hostsFile, '10.1.2.3 shop\n');
    expect(await unreadable.resolve('shop', signal)).toEqual(['10.1.2.3']);
  });
});

describe('E10 R2 one of several addresses', () => {
  test.skipIf(!hasIpv6)('AAAA hangs and A works: delivered', async () => {
    const { port } = await receiver(ok);
    await stalledListener('::1', port);
    const verdict = await postByName({ ipv4: ['127.0.0.1'], ipv6: ['::1'] }, port);
    expect(verdict).toMatchObject({ kind: 'delivered', address: '127.0.0.1' });
  });

  test.skipIf(!hasIpv6)('A hangs and AAAA works: delivered', async () => {
    const { port } = await receiver(ok, { host: '::1' });
    await stalledListener('127.0.0.1', port);
    const verdict = await postByName({ ipv4: ['127.0.0.1'], ipv6: ['::1'] }, port);
    expect(verdict).toMatchObject({ kind: 'delivered', address: '::1' });
  });

  test('the first hangs, the second refuses, the third works: delivered', async () => {
    const { port } = await receiver(ok, { host: '127.0.0.3' });
    await stalledListener('127.0.0.1', port);
    const verdict = await postByName({ ipv4: ['127.0.0.1', '127.0.0.2', '127.0.0.3'] }, port);
    expect(verdict).toMatchObject({ kind: 'delivered', address: '127.0.0.3' });
  });

  test('a far host that takes 400 ms to accept: delivered', async () => {
    const far = await stalledListener('127.0.0.1');
    setTimeout(() => far.resume(), 400);
    const verdict = await postTo(`http://127.0.0.1:${far.port}/`);
    expect(verdict).toMatchObject({ kind: 'delivered' });
    expect(verdict.timings?.connectMs).toBeGreaterThan(250);
  });

  test('nobody accepts within the deadline: connect-timeout', async () => {
    const { port } = await stalledListener('127.0.0.1');
    expect(await postTo(`http://127.0.0.1:${port}/`, { timeoutMs: 600 })).toMatchObject({
      kind: 'network',
      code: 'connect-timeout',
      address: '127.0.0.1',
      timings: { connectMs: expect.any(Number) },
    });
  });

  test('all refuse: connect-refused', async () => {
    const { port, close } = await receiver(ok);
    await close();
    const verdict = await postByName({ ipv4: ['127.0.0.1', '127.0.0.2'] }, port);
    expect(verdict).toMatchObject({ kind: 'network', code: 'connect-refused' });
  });
});

describe('E11 R3 R45 no private address is ever connected to', () => {
  const guard = new AddressGuard();

  test.each([
    '127.0.0.1',
    '127.0.0.1.',
    '127.1',
    '2130706433',
    '0177.0.0.1',
    '0x7f.0.0.1',
    '0x7f000001',
    '１２７。0。0。1',
    '0.0.0.0',
    '0',
    '127.255.255.254',
    '[::1]',
    '[::]',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::127.0.0.1]',
    '[2002:7f00:1::]',
    '[::ffff:10.0.0.1]',
    '10.0.0.1',
    '169.254.169.254',
    '100.64.0.1',
    '192.168.0.1',
    '172.16.0.1',
    'localhost',
    'localhost.',
    'LocalHost',
    'a.localhost',
  ])('http://%s', async (host) => {
    const near = await receiver(ok, { host: '0.0.0.0' });
    const alsoNear = hasIpv6 ? await receiver(ok, { host: '::1', port: near.port }) : undefined;
    const dns = await nameServer(() => 'not-found');
    const sender = senderFor({ guard, nameServers: [dns.address] });
    const verdict = await postTo(`http://${host}:${near.port}/`, { sender });
    expect(verdict).toMatchObject({
      kind: 'address-blocked',
      code: 'address-blocked',
      message: expect.stringContaining(' is '),
      hint: expect.any(String),
    });
    expect(meaningOf(verdict, true)).toBe('rejection');
    expect(hasFailed(verdict)).toBeUndefined();
    expect([near.connections(), alsoNear?.connections() ?? 0]).toEqual([0, 0]);
  });

  test.each<[string, Records]>([
    ['IPv4', { ipv4: ['127.0.0.1', '10.0.0.1'] }],
    ['IPv6', { ipv6: ['::1', 'fd00::1'] }],
    ['both', { ipv4: ['127.0.0.1'], ipv6: ['::ffff:7f00:1'] }],
  ])('a name that leads to private addresses: %s', async (_, records) => {
    const near = await receiver(ok);
    const dns = await nameServer(() => records);
    const sender = senderFor({ guard, nameServers: [dns.address] });
    expect(await postTo(`http://${HOST}:${near.port}/`, { sender })).toMatchObject({
      kind: 'address-blocked',
      message: expect.stringContaining('the host name leads to no public address'),
    });
    expect(near.connections()).toBe(0);
  });

  test('of a public and a private address only the public one is used', async () => {
    const open = await receiver(ok, { host: '127.0.0.2' });
    const near = await receiver(ok, { host: '127.0.0.1', port: open.port });
    const dns = await nameServer(() => ({ ipv4: ['127.0.0.1', '127.0.0.2'] }));
    const allowed = new AddressGuard({ allow: ['127.0.0.2/32'] });
    const sender = senderFor({ guard: allowed, nameServers: [dns.address] });
    const verdict = await postTo(`http://${HOST}:${open.port}/`, { sender });
    expect(verdict).toMatchObject({ kind: 'delivered', address: '127.0.0.2' });
    expect(near.connections()).toBe(0);
  });

  test('a name that changes between check and use: the address connected to is the one checked', async () => {
    const open = await receiver(ok, { host: '127.0.0.2' });
    const near = await receiver(ok, { host: '127.0.0.1', port: open.port });
    let asked = 0;
    const dns = await nameServer((_, type) => {
      if (type === 1) asked += 1;
      return { ipv4: [asked === 1 ? '127.0.0.2' : '127.0.0.1'] };
    });
    const allowed = new AddressGuard({ allow: ['127.0.0.2/32'] });
    const post = async () =>
      await postTo(`http://${HOST}:${open.port}/`, {
        sender: senderFor({ guard: allowed, nameServers: [dns.address] }),
      });
    expect(await post()).toMatchObject({ kind: 'delivered', address: '127.0.0.2' });
    expect(asked).toBe(1);
    // And when it is looked up anew.
    expect(await post()).toMatchObject({ kind: 'address-blocked' });
    expect(near.connections()).toBe(0);
  });
});

describe('E12 R72 odd addresses that are sent to', () => {
  test('user, password and fragment of a URL are never sent', async () => {
    const { port, received } = await receiver(ok);
    expect(await postTo(`http://user:p%40ss@127.0.0.1:${port}/a#fragment`)).toMatchObject({
      kind: 'delivered',
    });
    expect(received().toString()).not.toMatch(/user|p%40ss|authorization|fragment/i);
  });

  test('a path of 4,000 characters', async () => {
    const { port, received } = await receiver(ok);
    const path = `/${'long/'.repeat(800)}?q=%20`;
    expect(await postTo(`http://127.0.0.1:${port}${path}`)).toMatchObject({ kind: 'delivered' });
    expect(received().toString()).toContain(`POST ${path} HTTP/1.1`);
  });

  test('an IDN host', async () => {
    const { port, received } = await receiver(ok);
    const dns = await nameServer(() => ({ ipv4: ['127.0.0.1'] }));
    const sender = senderFor({ nameServers: [dns.address] });
    expect(await postTo(`http://bücher.example:${port}/`, { sender })).toMatchObject({ kind: 'delivered' });
    expect(dns.asked).toContain('A xn--bcher-kva.example');
    expect(received().toString()).toContain(`host: xn--bcher-kva.example:${port}`);
  });

  test('a scheme that is none of ours is a fault of our own', async () => {
    await expect(postTo('ftp://127.0.0.1/')).rejects.toThrow(SendingFault);
  });
});
