import { describe, expect, test } from 'vitest';
import { AddressGuard } from '../../src/http/address-guard.ts';

/** What the guard says of an address: why it is refused, or that it is public. */
type Verdict =
  | 'public'
  | 'not an IP address'
  | 'unspecified'
  | 'broadcast'
  | 'multicast'
  | 'link-local'
  | 'loopback'
  | 'carrier-grade NAT'
  | 'private'
  | 'unique local'
  | 'site-local'
  | 'IPv4 address in IPv6 form'
  | 'local NAT64'
  | '6to4'
  | 'Teredo'
  | 'benchmarks'
  | 'reserved'
  | 'outside the public IPv6 range'
  | 'network interface'
  | "cloud host's own";

/** As resolvers and sockets write them. */
const addresses: readonly (readonly [address: string, verdict: Verdict])[] = [
  ['0.0.0.0', 'unspecified'],
  ['0.1.2.3', 'unspecified'],
  ['1.1.1.1', 'public'],
  ['9.255.255.255', 'public'],
  ['10.0.0.0', 'private'],
  ['10.255.255.255', 'private'],
  ['11.0.0.0', 'public'],
  ['100.63.255.255', 'public'],
  ['100.64.0.1', 'carrier-grade NAT'],
  ['100.100.100.200', 'carrier-grade NAT'],
  ['100.127.255.255', 'carrier-grade NAT'],
  ['100.128.0.0', 'public'],
  ['127.0.0.1', 'loopback'],
  ['127.255.255.255', 'loopback'],
  ['128.0.0.1', 'public'],
  ['168.63.129.16', "cloud host's own"],
  ['168.63.129.17', 'public'],
  ['169.253.255.255', 'public'],
  ['169.254.0.1', 'link-local'],
  ['169.254.169.254', 'link-local'],
  ['169.254.170.2', 'link-local'],
  ['169.255.0.0', 'public'],
  ['172.15.255.255', 'public'],
  ['172.16.0.1', 'private'],
  ['172.31.255.255', 'private'],
  ['172.32.0.0', 'public'],
  ['192.0.0.0', 'reserved'],
  ['192.0.0.192', 'reserved'],
  ['192.0.1.0', 'public'],
  ['192.0.2.1', 'reserved'],
  ['192.31.196.1', 'reserved'],
  ['192.52.193.1', 'reserved'],
  ['192.88.99.1', 'reserved'],
  ['192.167.255.255', 'public'],
  ['192.168.0.1', 'private'],
  ['192.168.255.255', 'private'],
  ['192.169.0.0', 'public'],
  ['192.175.48.1', 'reserved'],
  ['198.17.255.255', 'public'],
  ['198.18.0.1', 'reserved'],
  ['198.19.255.255', 'reserved'],
  ['198.20.0.0', 'public'],
  ['198.51.100.7', 'reserved'],
  ['203.0.113.255', 'reserved'],
  ['223.255.255.255', 'public'],
  ['224.0.0.1', 'multicast'],
  ['239.255.255.255', 'multicast'],
  ['240.0.0.1', 'reserved'],
  ['255.255.255.254', 'reserved'],
  ['255.255.255.255', 'broadcast'],
  ['::', 'unspecified'],
  ['0:0:0:0:0:0:0:0', 'unspecified'],
  ['::1', 'loopback'],
  ['0:0:0:0:0:0:0:1', 'loopback'],
  ['0000:0000:0000:0000:0000:0000:0000:0001', 'loopback'],
  ['::2', 'IPv4 address in IPv6 form'],
  ['::127.0.0.1', 'IPv4 address in IPv6 form'],
  ['::7f00:1', 'IPv4 address in IPv6 form'],
  ['::8.8.8.8', 'IPv4 address in IPv6 form'],
  ['::ffff:127.0.0.1', 'IPv4 address in IPv6 form'],
  ['::ffff:7f00:1', 'IPv4 address in IPv6 form'],
  ['::FFFF:a00:1', 'IPv4 address in IPv6 form'],
  ['0:0:0:0:0:ffff:169.254.169.254', 'IPv4 address in IPv6 form'],
  ['::ffff:8.8.8.8', 'IPv4 address in IPv6 form'],
  ['::ffff:0:127.0.0.1', 'IPv4 address in IPv6 form'],
  ['::ffff:0:808:808', 'IPv4 address in IPv6 form'],
  ['64:ff9b::8.8.8.8', 'public'],
  ['64:ff9b::808:808', 'public'],
  ['64:ff9b::127.0.0.1', 'loopback'],
  ['64:ff9b::a00:1', 'private'],
  ['64:ff9b::a9fe:a9fe', 'link-local'],
  ['64:ff9b::100.64.0.1', 'carrier-grade NAT'],
  ['64:ff9b::0.0.0.0', 'unspecified'],
  ['64:ff9b:0:0:1::8.8.8.8', 'outside the public IPv6 range'],
  ['64:ff9b:1::8.8.8.8', 'local NAT64'],
  ['64:ff9b:1:fffe::1', 'local NAT64'],
  ['100::1', 'reserved'],
  ['100:0:0:1::1', 'outside the public IPv6 range'],
  ['1fff:ffff::1', 'outside the public IPv6 range'],
  ['2001::1', 'Teredo'],
  ['2001:0:7f00:1::', 'Teredo'],
  ['2001:1::1', 'reserved'],
  ['2001:2::1', 'benchmarks'],
  ['2001:3::1', 'reserved'],
  ['2001:4:112::1', 'reserved'],
  ['2001:10::1', 'reserved'],
  ['2001:20::1', 'reserved'],
  ['2001:2f:ffff::1', 'reserved'],
  ['2001:30::1', 'reserved'],
  ['2001:1ff:ffff::1', 'reserved'],
  ['2001:200::1', 'public'],
  ['2001:4860:4860::8888', 'public'],
  ['2001:db7:ffff::1', 'public'],
  ['2001:db8::1', 'reserved'],
  ['2001:DB8:ffff::', 'reserved'],
  ['2001:db9::1', 'public'],
  ['2002:7f00:1::1', '6to4'],
  ['2002:a00:1::', '6to4'],
  ['2002:808:808::1', '6to4'],
  ['2003::1', 'public'],
  ['2606:4700:4700::1111', 'public'],
  ['2620:4f:8000::1', 'reserved'],
  ['2a00:1450:4001:80b::200e', 'public'],
  ['3ffe:ffff::1', 'public'],
  ['3fff::1', 'reserved'],
  ['3fff:fff:ffff::1', 'reserved'],
  ['4000::1', 'outside the public IPv6 range'],
  ['5f00::1', 'reserved'],
  ['5f01::1', 'outside the public IPv6 range'],
  ['fbff::1', 'outside the public IPv6 range'],
  ['fc00::1', 'unique local'],
  ['fd00:ec2::254', 'unique local'],
  ['fdff:ffff::1', 'unique local'],
  ['fe00::1', 'outside the public IPv6 range'],
  ['fe80::1', 'link-local'],
  ['febf::1', 'link-local'],
  ['fec0::1', 'site-local'],
  ['feff::1', 'site-local'],
  ['ff02::1', 'multicast'],
  ['FF0E::1', 'multicast'],
  ['fe80::1%eth0', 'network interface'],
  ['::1%1', 'network interface'],
  ['2606:4700:4700::1111%2', 'network interface'],
  ['010.0.0.1', 'not an IP address'],
  ['0x7f.0.0.1', 'not an IP address'],
  ['2130706433', 'not an IP address'],
  ['127.1', 'not an IP address'],
  ['127.0.0.1.', 'not an IP address'],
  ['127.0.0.1 ', 'not an IP address'],
  ['256.0.0.1', 'not an IP address'],
  ['[::1]', 'not an IP address'],
  ['1::2::3', 'not an IP address'],
  ['merchant.example', 'not an IP address'],
  ['', 'not an IP address'],
];

/** Hosts as somebody may write them into a URL; a `name` is left to DNS. */
const hosts: readonly (readonly [
  host: string,
  verdict: Verdict | 'name' | 'no URL' | 'the machine itself',
])[] = [
  ['127.0.0.1', 'loopback'],
  ['127.0.0.1.', 'loopback'],
  ['127.1', 'loopback'],
  ['127.0.1', 'loopback'],
  ['2130706433', 'loopback'],
  ['017700000001', 'loopback'],
  ['0x7f000001', 'loopback'],
  ['0x7F.1', 'loopback'],
  ['0177.0.0.1', 'loopback'],
  ['0177.0.0.0x1', 'loopback'],
  ['127.0.0x0.1', 'loopback'],
  ['127%2e0%2E0.1', 'loopback'],
  ['%31%32%37.0.0.1', 'loopback'],
  ['１２７.0.0.1', 'loopback'],
  ['127。0。0。1', 'loopback'],
  ['①②⑦.0.0.1', 'loopback'],
  ['0', 'unspecified'],
  ['0.0.0.0', 'unspecified'],
  ['0x0', 'unspecified'],
  ['00000000', 'unspecified'],
  ['10.1', 'private'],
  ['012.0.0.1', 'private'],
  ['0xa000001', 'private'],
  ['167772161', 'private'],
  ['172.16.1', 'private'],
  ['192.168.257', 'private'],
  ['0xc0.0xa8.0.1', 'private'],
  ['0300.0250.0.1', 'private'],
  ['169.254.169.254', 'link-local'],
  ['2852039166', 'link-local'],
  ['0xA9FEA9FE', 'link-local'],
  ['0251.0376.0251.0376', 'link-local'],
  ['169.254.43518', 'link-local'],
  ['100.64.1', 'carrier-grade NAT'],
  ['0xffffffff', 'broadcast'],
  ['4294967295', 'broadcast'],
  ['224.1', 'multicast'],
  ['0x08080808', 'public'],
  ['010.8.8.8', 'public'],
  ['8.8.8.8.', 'public'],
  ['4294967296', 'no URL'],
  ['256.0.0.1', 'no URL'],
  ['1.2.3.4.5', 'no URL'],
  ['127.0.0.08', 'no URL'],
  ['merchant.0x7f', 'no URL'],
  ['127..1', 'no URL'],
  ['[::1]', 'loopback'],
  ['[0:0:0:0:0:0:0:1]', 'loopback'],
  ['[::]', 'unspecified'],
  ['[::ffff:127.0.0.1]', 'IPv4 address in IPv6 form'],
  ['[::FFFF:10.0.0.1]', 'IPv4 address in IPv6 form'],
  ['[::127.0.0.1]', 'IPv4 address in IPv6 form'],
  ['[::ffff:0:7f00:1]', 'IPv4 address in IPv6 form'],
  ['[64:ff9b::7f00:1]', 'loopback'],
  ['[64:FF9B::8.8.8.8]', 'public'],
  ['[2002:7f00:1::]', '6to4'],
  ['[FE80::1]', 'link-local'],
  ['[fd00:EC2::254]', 'unique local'],
  ['[2606:4700:4700::1111]', 'public'],
  ['[2606:4700:4700:0:0:0:0:1111]', 'public'],
  ['[fe80::1%25eth0]', 'no URL'],
  ['[::1', 'no URL'],
  ['::1', 'no URL'],
  ['[127.0.0.1]', 'no URL'],
  ['localhost', 'the machine itself'],
  ['localhost.', 'the machine itself'],
  ['LocalHost', 'the machine itself'],
  ['LOCALHOST.', 'the machine itself'],
  ['api.localhost', 'the machine itself'],
  ['a.b.localhost.', 'the machine itself'],
  ['ｌｏｃａｌｈｏｓｔ', 'the machine itself'],
  ['local%68ost', 'the machine itself'],
  ['ⓛⓞⓒⓐⓛⓗⓞⓢⓣ', 'the machine itself'],
  ['notlocalhost', 'name'],
  ['localhost.example', 'name'],
  ['127.0.0.1.nip.io', 'name'],
  ['merchant.example', 'name'],
  ['merchant.example.', 'name'],
  ['bücher.example', 'name'],
  ['xn--bcher-kva.example', 'name'],
  ['метро.example', 'name'],
  ['10.0.0.1.example', 'name'],
  ['metadata.google.internal', 'name'],
];

const guard = new AddressGuard();

describe('R3 R72 E11 which addresses are refused', () => {
  test.each(addresses)('address %s: %s', (address, verdict) => {
    const refusal = guard.refusal(address);
    if (verdict === 'public') expect(refusal).toBeUndefined();
    else expect(refusal).toContain(verdict);
  });

  test.each(hosts)('host %s of a URL: %s', (host, verdict) => {
    const url = `https://${host}/hooks`;
    expect(URL.canParse(url)).toBe(verdict !== 'no URL');
    if (verdict === 'no URL') return;
    const refusal = guard.hostRefusal(new URL(url).hostname);
    if (verdict === 'public' || verdict === 'name') expect(refusal).toBeUndefined();
    else expect(refusal).toContain(verdict);
  });
});

describe('R72 what a deployment allows', () => {
  test.each<[allow: string, allowed: readonly string[], refused: readonly string[]]>([
    ['10.1.0.0/16', ['10.1.0.0', '10.1.255.255', '64:ff9b::10.1.0.1'], ['10.2.0.0', '::ffff:10.1.0.1']],
    ['127.0.0.1/32', ['127.0.0.1'], ['127.0.0.2', '::1']],
    ['fd00:1::/64', ['fd00:1::5'], ['fd00:1:0:1::5', 'fd00:1::5%']],
    ['::1/128', ['::1', '0:0:0:0:0:0:0:1'], ['::', '127.0.0.1', '::2']],
    ['::ffff:10.0.0.0/104', ['::ffff:10.9.9.9'], ['10.9.9.9', '::ffff:11.0.0.1']],
    ['64:ff9b:1::/96', ['64:ff9b:1::8.8.8.8'], ['64:ff9b:1:1::8.8.8.8']],
    ['0.0.0.0/0', ['10.0.0.1', '255.255.255.255'], ['::1', 'fd00::1']],
  ])('%s', (cidr, allowed, refused) => {
    const allowing = new AddressGuard({ allow: ['203.0.113.0/24', cidr] });
    for (const address of allowed) expect(allowing.refusal(address), address).toBeUndefined();
    for (const address of refused) expect(allowing.refusal(address), address).toBeTypeOf('string');
  });

  test('localhost is allowed where one of its addresses is', () => {
    expect(new AddressGuard({ allow: ['127.0.0.0/8'] }).hostRefusal('localhost')).toBeUndefined();
    expect(new AddressGuard({ allow: ['::1/128'] }).hostRefusal('localhost.')).toBeUndefined();
    expect(new AddressGuard({ allow: ['10.0.0.0/8'] }).hostRefusal('localhost')).toBeTypeOf('string');
  });

  test.each([
    ['10.0.0.0', 'is not a CIDR'],
    ['10.0.0.0/33', 'is not a CIDR'],
    ['10.0/8', 'is not a CIDR'],
    ['0x0a.0.0.0/8', 'is not a CIDR'],
    [' 10.0.0.0/8', 'is not a CIDR'],
    ['fd00::/129', 'is not a CIDR'],
    ['localhost', 'is not a CIDR'],
    ['', 'is not a CIDR'],
    ['10.1.2.3/8', 'write 10.0.0.0/8'],
    ['fd00::1/64', 'write fd00::/64'],
  ])('%j is refused: %s', (cidr, remedy) => {
    expect(() => new AddressGuard({ allow: [cidr] })).toThrow(remedy);
  });
});
