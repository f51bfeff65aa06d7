/** A webhook receiver as a process of its own, told by its parent how to answer which path. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Reply } from '../child.ts';

/** A status to answer with, or never to answer. */
export type Answer = number | 'hang';
/** Answers to one request after the other; the last goes for all that follow. */
export type Answers = Answer | readonly Answer[];

/** One request as the receiver saw it. */
export interface Arrival {
  readonly webhookId: string;
  /** Unix milliseconds. */
  readonly at: number;
  readonly answer: Answer;
}

/** What the parent asks; each is answered with a {@link Reply} of the same number. */
export type ReceiverCall = { readonly number: number } & (
  | { readonly ask: 'answer'; readonly path: string; readonly answer: Answers }
  | { readonly ask: 'count'; readonly path: string }
  | { readonly ask: 'arrivals'; readonly path: string }
);
export type ReceiverResult = number | readonly Arrival[];

const answers = new Map<string, Answer[]>();
const arrivals = new Map<string, Arrival[]>();

const server = createServer((request, response) => {
  const at = Date.now();
  const path = request.url ?? '/';
  const due = answers.get(path) ?? [];
  const answer = (due.length > 1 ? due.shift() : due[0]) ?? 200;
  const seen = arrivals.get(path) ?? [];
  arrivals.set(path, seen);
  seen.push({ webhookId: String(request.headers['x-webhook-id']), at, answer });
  request.resume().on('end', () => {
    if (answer !== 'hang') response.writeHead(answer).end();
  });
});

function resultOf(call: ReceiverCall): ReceiverResult {
  switch (call.ask) {
    case 'answer':
      answers.set(call.path, [call.answer].flat());
      return 0;
    case 'count':
      return arrivals.get(call.path)?.length ?? 0;
    case 'arrivals':
      return arrivals.get(call.path) ?? [];
  }
}

process.on('message', (call: ReceiverCall) => {
  process.send?.({ number: call.number, result: resultOf(call) } satisfies Reply<ReceiverResult>);
});
process.on('disconnect', () => process.exit());
// The first message tells the port.
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
