/** A webhook receiver as a process of its own, told by its parent how to answer which path. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A status to answer with, or never to answer. */
export type Answer = number | 'hang';

/** One request as the receiver saw it. */
export interface Arrival {
  readonly webhookId: string;
  /** Unix milliseconds. */
  readonly at: number;
  readonly answer: Answer;
}

/** What the parent asks; each is answered with an {@link ReceiverReply} of the same number. */
export type ReceiverCall = { readonly number: number } & (
  | { readonly ask: 'answer'; readonly path: string; readonly answer: Answer }
  | { readonly ask: 'count'; readonly path: string }
  | { readonly ask: 'arrivals'; readonly path: string }
);
export type ReceiverReply =
  { readonly port: number } | { readonly number: number; readonly result: number | readonly Arrival[] };

const answers = new Map<string, Answer>();
const arrivals = new Map<string, Arrival[]>();

const server = createServer((request, response) => {
  const at = Date.now();
  const path = request.url ?? '/';
  const answer = answers.get(path) ?? 200;
  const seen = arrivals.get(path) ?? [];
  arrivals.set(path, seen);
  seen.push({ webhookId: String(request.headers['x-webhook-id']), at, answer });
  request.resume().on('end', () => {
    if (answer !== 'hang') response.writeHead(answer).end();
  });
});

function resultOf(call: ReceiverCall): number | readonly Arrival[] {
  switch (call.ask) {
    case 'answer':
      answers.set(call.path, call.answer);
      return 0;
    case 'count':
      return arrivals.get(call.path)?.length ?? 0;
    case 'arrivals':
      return arrivals.get(call.path) ?? [];
  }
}

function reply(message: ReceiverReply): void {
  process.send?.(message);
}

process.on('message', (call: ReceiverCall) => reply({ number: call.number, result: resultOf(call) }));
process.on('disconnect', () => process.exit());
server.listen(0, '127.0.0.1', () => reply({ port: (server.address() as AddressInfo).port }));
