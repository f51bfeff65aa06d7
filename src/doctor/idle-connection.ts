import { setTimeout as sleep } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { OpenConnection } from '../http/connections.ts';
import type { Connector } from '../http/connector.ts';
import { Trace } from '../http/trace.ts';
import type { TestRequests } from './requests.ts';

/** What a server does with a connection after its answer. */
export interface IdleConnection {
  /** It says that it closes it: `Connection: close`. */
  readonly closes: boolean;
  /** Seconds that it says it keeps it: `Keep-Alive: timeout=5`. */
  readonly keepsSeconds?: number;
  /** When it closed it, milliseconds after its answer; absent if it did not while it was watched. */
  readonly closedAfterMs?: number;
  /** The status of a second request on the same connection. */
  readonly secondStatus?: number;
}

/** So that the second request goes before. */
const SPARE_MS = 200;

/**
 * Sends an event, leaves the connection alone for a while, and sends another one on it.
 * @throws errors of sockets, TLS and undici.
 */
export async function watchIdleConnection(
  connector: Pick<Connector, 'open'>,
  requests: TestRequests,
): Promise<IdleConnection> {
  const { timeoutMs, idleMs } = requests.limits;
  const url = new URL(requests.endpoint.url);
  await requests.turn();
  const connected = await connector.open(url, new Trace(), AbortSignal.timeout(timeoutMs));
  const connection = new OpenConnection(url.origin, connected, () => undefined);
  const ended = new Promise<number>((resolve) => {
    connected.socket.once('end', () => resolve(performance.now()));
    connected.socket.once('error', (error: NodeJS.ErrnoException) => {
      // undici ends a connection that it gives up by an error of its own.
      if (error.code === 'ECONNRESET') resolve(performance.now());
    });
  });
  const post = async (): Promise<Dispatcher.ResponseData> => {
    const request = requests.request({ name: 'keep-alive' });
    requests.sent += 1;
    const path = url.pathname + url.search;
    const signal = AbortSignal.timeout(timeoutMs);
    const response = await connection.request({ method: 'POST', path, ...request, signal });
    await response.body.dump();
    return response;
  };
  try {
    const { headers } = await post();
    const answeredAt = performance.now();
    const closes = String(headers['connection'] ?? '')
      .toLowerCase()
      .includes('close');
    const hint = /timeout=(\d+)/i.exec(String(headers['keep-alive'] ?? ''))?.[1];
    const keepsSeconds = hint === undefined ? undefined : Number(hint);
    // undici gives it up 2 s before the server says that it will.
    const watchMs = Math.min(
      idleMs,
      keepsSeconds === undefined ? idleMs : (keepsSeconds - 2) * 1_000 - SPARE_MS,
    );
    const closedAt = closes ? undefined : await Promise.race([ended, sleep(Math.max(0, watchMs), undefined)]);
    const facts = { closes, ...(keepsSeconds === undefined ? {} : { keepsSeconds }) };
    if (closedAt !== undefined) return { ...facts, closedAfterMs: Math.round(closedAt - answeredAt) };
    if (closes || watchMs <= 0) return facts;
    return { ...facts, secondStatus: (await post()).statusCode };
  } finally {
    connection.close();
  }
}
