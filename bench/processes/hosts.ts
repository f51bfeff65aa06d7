/** Any number of HTTPS hosts and their name server, as one process that is each of them at an address of its own. */
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createAuthority } from '../../test/support/certificates.ts';
import { startNameServer } from '../../test/support/name-server.ts';

/** What the parent is told first. */
export interface HostsReady {
  readonly port: number;
  /** Host and port of the name server; host `n` is `h<n>.hosts.test`. */
  readonly nameServer: string;
  /** The root that all their certificates lead to. */
  readonly authority: string;
}

export interface HostsCall {
  readonly number: number;
}
export interface HostsCounts {
  readonly connections: number;
  readonly requests: number;
}

/** Each host answers with this much. */
const REPLY = Buffer.alloc(10 * 1024, 'r');

let connections = 0;
let requests = 0;
const authority = createAuthority('hosts');
const server = createServer(authority.server({ hosts: ['*.hosts.test'] }), (request, response) => {
  requests += 1;
  request.resume().on('end', () => response.end(REPLY));
});
server.on('secureConnection', () => {
  connections += 1;
});
server.listen({ host: '0.0.0.0', port: 0, backlog: 1_024 });
const names = await startNameServer((name) => ({ ipv4: [addressOf(name)] }));

/** All of 127.0.0.0/8 is this machine. */
function addressOf(name: string): string {
  const nth = Number(/^h(\d+)\./.exec(name)?.[1] ?? 0);
  return `127.1.${nth >> 8}.${nth & 0xff}`;
}

process.on('message', ({ number }: HostsCall) => {
  process.send?.({ number, result: { connections, requests } satisfies HostsCounts });
});
process.on('disconnect', () => process.exit());
const { port } = server.address() as AddressInfo;
process.send?.({ port, nameServer: names.address, authority: authority.pem } satisfies HostsReady);
