import type { Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { AddressGuard } from '../../src/http/address-guard.ts';
import { Sender, type Post, type SenderOptions } from '../../src/http/sender.ts';
import type { Verdict } from '../../src/policy/verdicts.ts';
import { startNameServer, type NameServer } from './name-server.ts';
import { startRawReceiver, type RawReceiver, type RawReceiverOptions } from './raw-receiver.ts';
import { startStalledListener, type StalledListener } from './stalled-listener.ts';

/** A guard that lets tests reach this machine. */
export const loopback = new AddressGuard({ allow: ['127.0.0.0/8', '::1/128'] });

/** A sender that the test leaves closed. */
export function senderFor(options: Partial<SenderOptions> = {}): Sender {
  const sender = new Sender({ guard: loopback, ...options });
  onTestFinished(() => sender.close());
  return sender;
}

/** Posts a small webhook. */
export async function postTo(
  url: string,
  { sender = senderFor(), timeoutMs = 10_000, ...more }: Partial<Post> & { sender?: Sender } = {},
): Promise<Verdict> {
  return await sender.post({
    url,
    headers: { 'Content-Type': 'application/json' },
    body: Buffer.from('{"a":1}'),
    timeoutMs,
    ...more,
  });
}

/** A raw receiver that lives as long as the test. */
export async function receiver(
  script: (socket: Socket) => void,
  options: RawReceiverOptions = {},
): Promise<RawReceiver> {
  const started = await startRawReceiver(script, options);
  onTestFinished(() => started.close());
  return started;
}

/** A name server that lives as long as the test. */
export async function nameServer(...args: Parameters<typeof startNameServer>): Promise<NameServer> {
  const started = await startNameServer(...args);
  onTestFinished(() => started.close());
  return started;
}

/** A port that accepts nobody, for as long as the test. */
export async function stalledListener(host: string, port?: number): Promise<StalledListener> {
  const started = await startStalledListener(host, port);
  onTestFinished(() => started.close());
  return started;
}

/** A response head. */
export const head = (status: number | string, ...headers: string[]): string =>
  `HTTP/1.1 ${status} Word\r\n${headers.map((each) => `${each}\r\n`).join('')}\r\n`;

/** Answers with an empty 200. */
export const ok = (socket: Socket): void => {
  socket.write(head(200, 'Content-Length: 0'));
};
