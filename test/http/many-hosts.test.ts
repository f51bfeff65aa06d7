import { expect, test, vi } from 'vitest';
import { head, nameServer, postTo, receiver, senderFor } from '../support/posting.ts';

const HOSTS = 400;
const AT_ONCE = 20;
/** As docs/http-edge.md says. */
const KEPT = 256;
const reply = `${head(200, 'Content-Length: 10240')}${'r'.repeat(10_240)}`;

test('E14 R1 400 hosts with replies of 10 KB: few connections are kept', async () => {
  const server = await receiver((socket) => socket.write(reply), { host: '0.0.0.0' });
  const dns = await nameServer((name) => {
    const nth = Number(/\d+/.exec(name)?.[0]);
    return { ipv4: [`127.1.${nth >> 8}.${nth & 0xff}`] };
  });
  const sender = senderFor({ nameServers: [dns.address] });
  let most = 0;
  let next = 0;
  const postAll = async (): Promise<void> => {
    while (next < HOSTS) {
      const url = `http://h${next++}.example:${server.port}/`;
      expect(await postTo(url, { sender })).toMatchObject({ kind: 'delivered', excerptCut: true });
      most = Math.max(most, server.open());
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, postAll));
  expect(server.requests()).toBe(HOSTS);
  expect(most).toBeLessThanOrEqual(KEPT + 4 * AT_ONCE);
  sender.close();
  await vi.waitFor(() => expect(server.open()).toBe(0), { timeout: 30_000 });
});
