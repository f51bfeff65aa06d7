import ipaddr from 'ipaddr.js';
import { messageOf } from '../message-of.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = [Address, number];

/** The networks that a variable of the environment allows: CIDRs, separated by commas. */
export function networksOf(text = ''): string[] {
  return text
    .split(',')
    .map((cidr) => cidr.trim())
    .filter((cidr) => cidr !== '');
}

/** What is wrong with the networks that are to be allowed, if anything. */
export function networkProblem(allow: readonly string[]): string | undefined {
  try {
    allow.forEach(parseCidr);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** What webhooks may reach beside the public internet. */
export interface AddressGuardOptions {
  /** CIDRs such as `10.1.0.0/16` or `fd00:1::/64`; none by default. */
  readonly allow?: readonly string[];
}

/**
 * R3, R72: tells which addresses must not be connected to: whatever is not plain public unicast. It judges
 * addresses, not names: ask it about the address that is really connected to.
 */
export class AddressGuard {
  private readonly allowed: readonly Range[];

  /** @throws TypeError that names the entry of `allow` that is no CIDR. */
  constructor({ allow = [] }: AddressGuardOptions = {}) {
    this.allowed = allow.map(parseCidr);
  }

  /**
   * Why this address must not be connected to, in a sentence; `undefined` if it may be.
   * @param address - as resolvers and sockets write it: four decimal parts, or IPv6 without brackets.
   */
  refusal(address: string): string | undefined {
    const parsed = parseAddress(address);
    if (parsed === undefined) return `${address} is not an IP address`;
    if (this.isAllowed(parsed)) return undefined;
    if (parsed instanceof ipaddr.IPv6 && parsed.zoneId !== undefined) {
      return `${address} names a network interface, which only local addresses do`;
    }
    // In a network that reaches IPv4 by NAT64 every IPv4 address looks like this.
    const translated = embeddedByNat64(parsed);
    if (translated !== undefined) {
      const reason = this.refusal(translated);
      return reason && `${address} is IPv4 by NAT64, and ${reason}`;
    }
    const kind = kindOf(parsed);
    return kind === undefined ? undefined : `${address} is ${kind}`;
  }

  /**
   * Why the host of a URL must not be connected to, as far as it can be told without DNS: it is an address, or
   * `localhost`. Other names are `undefined`.
   * @param hostname - `URL.hostname`, which has brought every spelling of an address into one form.
   */
  hostRefusal(hostname: string): string | undefined {
    if (hostname.startsWith('[')) return this.refusal(hostname.slice(1, -1));
    if (ipaddr.IPv4.isValidFourPartDecimal(hostname)) return this.refusal(hostname);
    if (!/(^|\.)localhost\.?$/i.test(hostname)) return undefined;
    // RFC 6761: these names are always the machine itself.
    return this.refusal('127.0.0.1') && this.refusal('::1') && `${hostname} is the machine itself`;
  }

  private isAllowed(address: Address): boolean {
    return this.allowed.some(
      ([network, bits]) => network.kind() === address.kind() && address.match(network, bits),
    );
  }
}

function parseAddress(address: string): Address | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return ipaddr.IPv4.parse(address);
  return ipaddr.IPv6.isValid(address) ? ipaddr.IPv6.parse(address) : undefined;
}

function parseCidr(cidr: string): Range {
  const isCidr = ipaddr.IPv4.isValidCIDRFourPartDecimal(cidr) || ipaddr.IPv6.isValidCIDR(cidr);
  if (!isCidr)
    throw new TypeError(`"${cidr}" is not a CIDR: write it like 10.1.0.0/16, 10.1.2.3/32 or fd00:1::/64`);
  const [address, bits] = ipaddr.parseCIDR(cidr);
  const network = (address.kind() === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6).networkAddressFromCIDR(cidr);
  if (network.toString() !== address.toString()) {
    throw new TypeError(`"${cidr}" does not begin its range: write ${network.toString()}/${bits}`);
  }
  return [network, bits];
}

function embeddedByNat64(address: Address): string | undefined {
  if (address.kind() !== 'ipv6' || !address.match(NAT64)) return undefined;
  return ipaddr.fromByteArray(address.toByteArray().slice(-4)).toString();
}

/** What keeps an address from being public; `undefined` if nothing does. */
function kindOf(address: Address): string | undefined {
  const range: string = address.range();
  if (range !== 'unicast') return words.get(range) ?? 'a reserved address';
  if (address.kind() === 'ipv4')
    return address.match(AZURE_HOST) ? "the cloud host's own address" : undefined;
  if (address.match(IPV4_COMPATIBLE)) return 'an IPv4 address in IPv6 form';
  return address.match(GLOBAL_UNICAST) ? undefined : 'outside the public IPv6 range 2000::/3';
}

const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');
/** A public address that answers inside Azure only, with the keys of the machine. */
const AZURE_HOST = ipaddr.IPv4.parseCIDR('168.63.129.16/32');
const IPV4_COMPATIBLE = ipaddr.IPv6.parseCIDR('::/96');
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3');

/** The library's names of ranges, in words. */
const words = new Map([
  ['unspecified', 'an unspecified address'],
  ['broadcast', 'the broadcast address'],
  ['multicast', 'a multicast address'],
  ['linkLocal', 'a link-local address'],
  ['loopback', 'a loopback address'],
  ['carrierGradeNat', 'an address of carrier-grade NAT'],
  ['private', 'a private address'],
  ['uniqueLocal', 'a unique local address'],
  ['deprecatedSiteLocal', 'a site-local address'],
  ['ipv4Mapped', 'an IPv4 address in IPv6 form'],
  ['rfc6145', 'an IPv4 address in IPv6 form'],
  ['rfc6052', 'an address of local NAT64'],
  ['6to4', 'a 6to4 address'],
  ['teredo', 'a Teredo address'],
  ['benchmarking', 'an address for benchmarks'],
]);
