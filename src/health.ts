import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { messageOf } from './message-of.ts';

/** What a process says of itself when it is asked. */
export interface Health {
  /** `undefined` if it is well, else why not. */
  readonly live: () => Promise<string | undefined> | string | undefined;
  readonly ready: () => Promise<string | undefined> | string | undefined;
}

/** Answers the probes of an orchestrator. */
export interface HealthServer {
  readonly url: string;
  /** What is asked from now on; before, the process is live and not ready. */
  watch(health: Health): void;
  close(): Promise<void>;
}

const starting: Health = { live: () => undefined, ready: () => 'it is starting' };

/**
 * Serves `GET /healthz` (200 while the process works; restart it otherwise) and `GET /readyz` (200 while it does its work),
 * each with a line that says why not. They answer in the loop that does the work: one that stands still does not answer.
 * @throws if it cannot listen there.
 */
export async function startHealthServer({
  host,
  port,
}: {
  readonly host: string;
  readonly port: number;
}): Promise<HealthServer> {
  let health = starting;
  const server = createServer({ requestTimeout: 10_000 }, ({ method, url }, response) => {
    const question = { '/healthz': health.live, '/readyz': health.ready }[url ?? ''];
    if (question === undefined || (method !== 'GET' && method !== 'HEAD')) {
      reply(response, 404, 'there are GET /healthz and GET /readyz only');
      return;
    }
    void answer(response, question);
  });
  server.listen(port, host);
  await once(server, 'listening');
  const { address, family, port: taken } = server.address() as AddressInfo;
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${taken}`,
    watch(next) {
      health = next;
    },
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

async function answer(response: ServerResponse, question: Health['live']): Promise<void> {
  try {
    const problem = await question();
    reply(response, problem === undefined ? 200 : 503, problem ?? 'ok');
  } catch (error) {
    reply(response, 503, messageOf(error));
  }
}

function reply(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' });
  response.end(`${text}\n`);
}
