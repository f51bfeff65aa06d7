import { Resolver as DnsResolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { isOwnFault, SendingFault } from './network-failures.ts';

/** One question to one name server, milliseconds; the second try takes twice as long. */
const ASK_WITHIN_MS = 1_500;
const TRIES = 2;
/** However many name servers there are. */
const RESOLVE_WITHIN_MS = 5_000;
/** Once there are IPv4 addresses, the IPv6 ones are waited for no longer than this. */
const SECOND_ANSWER_WITHIN_MS = 250;
const HOSTS_KEPT_MS = 60_000;

export interface ResolverOptions {
  /** Asked instead of the system's name servers: addresses with or without port. */
  readonly nameServers?: readonly string[] | undefined;
  /** `/etc/hosts` by default. */
  readonly hostsFile?: string;
}

/**
 * Turns host names into addresses: by the hosts file, then by DNS. It speaks DNS itself, since the system's resolver
 * tells failures apart badly and keeps one of a few threads busy for each name whose servers are silent.
 */
export class Resolver {
  private readonly nameServers: readonly string[] | undefined;
  private readonly hostsFile: string;
  private hosts: { readonly addresses: ReadonlyMap<string, string[]>; readonly readAt: number } | undefined;

  constructor({ nameServers, hostsFile = '/etc/hosts' }: ResolverOptions = {}) {
    this.nameServers = nameServers;
    this.hostsFile = hostsFile;
  }

  /**
   * All addresses of a name, IPv4 first.
   * @param signal - ends the lookup as if no name server had answered.
   * @throws an error with a `code` of `node:dns`, such as `ENOTFOUND` or `ESERVFAIL`; {@link SendingFault} if the hosts
   * file cannot be read.
   */
  async resolve(hostname: string, signal: AbortSignal): Promise<string[]> {
    const name = hostname.replace(/\.$/, '');
    // RFC 6761: never asked of a name server.
    if (/(^|\.)localhost$/i.test(name)) return ['127.0.0.1', '::1'];
    return (await this.fromHostsFile(name)) ?? (await this.fromDns(name, signal));
  }

  private async fromDns(name: string, signal: AbortSignal): Promise<string[]> {
    signal.throwIfAborted();
    // A resolver of its own for each name: it can be cancelled alone and follows changes of the system's settings.
    const dns = new DnsResolver({ timeout: ASK_WITHIN_MS, tries: TRIES });
    if (this.nameServers !== undefined) dns.setServers(this.nameServers);
    const cancel = () => dns.cancel();
    const timer = setTimeout(cancel, RESOLVE_WITHIN_MS);
    signal.addEventListener('abort', cancel);
    try {
      const ipv6 = dns.resolve6(name).catch(asError);
      const ipv4 = await dns.resolve4(name).catch(asError);
      if (ipv4 instanceof Error) {
        const only = await ipv6;
        if (only instanceof Error) throw mostTelling(ipv4, only);
        return only;
      }
      const late = setTimeout(cancel, SECOND_ANSWER_WITHIN_MS);
      const more = await ipv6;
      clearTimeout(late);
      return more instanceof Error ? ipv4 : [...ipv4, ...more];
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
    }
  }

  private async fromHostsFile(name: string): Promise<string[] | undefined> {
    if (this.hosts === undefined || Date.now() - this.hosts.readAt > HOSTS_KEPT_MS) {
      const text = await readFile(this.hostsFile, 'utf8').catch(withoutHosts);
      this.hosts = { addresses: parseHosts(text), readAt: Date.now() };
    }
    return this.hosts.addresses.get(name.toLowerCase());
  }
}

function parseHosts(text: string): Map<string, string[]> {
  const hosts = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (isIP(address) === 0) continue;
    for (const name of names.map((each) => each.toLowerCase())) {
      hosts.set(name, [...(hosts.get(name) ?? []), address]);
    }
  }
  return hosts;
}

/** A machine may have no hosts file; but a name that is in it must not be asked of DNS. */
function withoutHosts(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') return '';
  throw new SendingFault(`the hosts file cannot be read: ${error.message}`, { cause: error });
}

/** That a name does not exist says most; that there is no address of one kind, less than what came of the other. */
function mostTelling(ipv4: Error, ipv6: Error): Error {
  return rank(ipv6) < rank(ipv4) ? ipv6 : ipv4;
}

function rank(error: Error): number {
  const code = 'code' in error ? error.code : undefined;
  if (code === 'ENOTFOUND') return 0;
  if (code === 'ENODATA') return 3;
  return isOwnFault(error, 'dns') ? 2 : 1;
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
