import { createSocket } from 'node:dgram';

/** What is answered for a name: its addresses, a failure, or nothing at all. */
export type Records =
  | { readonly ipv4?: readonly string[] | 'silent'; readonly ipv6?: readonly string[] | 'silent' }
  | 'not-found'
  | 'server-failure'
  | 'refused'
  | 'silent';

/** A DNS server on a real UDP socket that answers by script. */
export interface NameServer {
  /** Host and port. */
  readonly address: string;
  /** The names that were asked for, in order, each with its type. */
  readonly asked: string[];
  close(): Promise<void>;
}

const rcodes = { 'not-found': 3, 'server-failure': 2, refused: 5 } as const;
const types = new Map([
  [1, 'A'],
  [28, 'AAAA'],
]);

/** Starts a name server; `records` is asked for each question, 1 for A and 28 for AAAA. */
export async function startNameServer(records: (name: string, type: number) => Records): Promise<NameServer> {
  const socket = createSocket('udp4');
  const asked: string[] = [];
  let isOpen = true;
  socket.on('message', (query, from) => {
    const { name, type, end } = questionOf(query);
    asked.push(`${types.get(type) ?? type} ${name}`);
    const found = records(name, type);
    if (found === 'silent') return;
    const isFailure = typeof found === 'string';
    const addresses = isFailure ? [] : ((type === 1 ? found.ipv4 : found.ipv6) ?? []);
    if (addresses === 'silent') return;
    const head = Buffer.alloc(12);
    query.copy(head, 0, 0, 2);
    head.writeUInt16BE(0x8180 | (isFailure ? rcodes[found] : 0), 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(addresses.length, 6);
    const answers = addresses.map((address) => recordOf(type, address));
    socket.send(Buffer.concat([head, query.subarray(12, end), ...answers]), from.port, from.address);
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    async close() {
      if (isOpen) await new Promise<void>((resolve) => socket.close(resolve));
      isOpen = false;
    },
  };
}

function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** A record of the name in question, to be asked for again each time. */
function recordOf(type: number, address: string): Buffer {
  const bytes = type === 1 ? address.split('.').map(Number) : ipv6Bytes(address);
  const head = Buffer.from([0xc0, 0x0c, 0, type, 0, 1, 0, 0, 0, 0, 0, bytes.length]);
  return Buffer.concat([head, Buffer.from(bytes)]);
}

function ipv6Bytes(address: string): number[] {
  const [left = '', right = ''] = address.split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':').map((each) => parseInt(each, 16)));
  const [head, tail] = [groups(left), groups(right)];
  const all = [...head, ...Array<number>(8 - head.length - tail.length).fill(0), ...tail];
  return all.flatMap((group) => [group >> 8, group & 0xff]);
}
