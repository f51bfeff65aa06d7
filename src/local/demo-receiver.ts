import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fateOf } from './demo-fates.ts';

/** The merchants of the demo, all at one address. */
export interface DemoReceiver {
  /** Where a merchant of the demo receives its webhooks. */
  urlOf(merchantId: string): string;
  close(): Promise<void>;
}

/** Listens on a free port of 127.0.0.1 and answers each merchant's webhooks as its fate says. */
export async function startDemoReceiver(): Promise<DemoReceiver> {
  const server = createServer((request, response) => {
    request.resume();
    request.once('end', () => answer(request, response));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    urlOf: (merchantId) => `http://127.0.0.1:${port}/${merchantId}`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const fate = fateOf(request.url?.slice(1) ?? '');
  const chosen = fate?.answer(Number(request.headers['x-webhook-attempt'])) ?? { status: 404, body: '' };
  if (chosen === 'reset') request.socket.resetAndDestroy();
  else response.writeHead(chosen.status, { 'Content-Type': 'text/plain' }).end(chosen.body);
}
