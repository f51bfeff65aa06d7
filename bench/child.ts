import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Answer, Arrival, ReceiverCall, ReceiverReply } from './processes/receiver.ts';
import type { WorkerArguments } from './processes/worker.ts';

/** The workers' process. */
export interface WorkerProcess {
  isAlive(): boolean;
  stop(): Promise<void>;
}

/** The receiver's process. */
export interface ReceiverProcess {
  /** Where one merchant receives. */
  url(merchantId: string): string;
  /** How the merchant's endpoint answers from now on; 200 by default. */
  answer(merchantId: string, answer: Answer): Promise<void>;
  /** How many requests the merchant has had. */
  count(merchantId: string): Promise<number>;
  /** The merchant's requests, in order. */
  arrivals(merchantId: string): Promise<readonly Arrival[]>;
  stop(): Promise<void>;
}

/** Starts the workers in a process of their own and resolves when they poll. */
export async function startWorkerProcess(args: WorkerArguments): Promise<WorkerProcess> {
  const child = start('worker', [JSON.stringify(args)]);
  await firstMessage(child, 'the workers');
  return { isAlive: () => isAlive(child), stop: () => stop(child) };
}

/** Starts the receiver in a process of its own and resolves when it listens. */
export async function startReceiverProcess(): Promise<ReceiverProcess> {
  const child = start('receiver', []);
  const first = (await firstMessage(child, 'the receiver')) as ReceiverReply;
  if (!('port' in first)) throw new Error('the receiver did not tell its port');
  const waiting = new Map<number, (result: number | readonly Arrival[]) => void>();
  child.on('message', (reply: ReceiverReply) => {
    if (!('number' in reply)) return;
    waiting.get(reply.number)?.(reply.result);
    waiting.delete(reply.number);
  });
  let calls = 0;
  const call = async (ask: Asked): Promise<number | readonly Arrival[]> => {
    if (!isAlive(child))
      throw new Error(`the receiver ended by itself: ${child.signalCode ?? child.exitCode}`);
    const number = ++calls;
    const { promise, resolve } = Promise.withResolvers<number | readonly Arrival[]>();
    waiting.set(number, resolve);
    child.send({ number, ...ask } satisfies ReceiverCall);
    return await promise;
  };
  return {
    url: (merchantId) => `http://127.0.0.1:${first.port}/${merchantId}`,
    async answer(merchantId, answer) {
      await call({ ask: 'answer', path: `/${merchantId}`, answer });
    },
    async count(merchantId) {
      return Number(await call({ ask: 'count', path: `/${merchantId}` }));
    },
    async arrivals(merchantId) {
      const result = await call({ ask: 'arrivals', path: `/${merchantId}` });
      return typeof result === 'number' ? [] : result;
    },
    stop: () => stop(child),
  };
}

/** `Omit` over each member of the union. */
type Asked = ReceiverCall extends infer Call
  ? Call extends ReceiverCall
    ? Omit<Call, 'number'>
    : never
  : never;

function start(name: 'worker' | 'receiver', args: string[]): ChildProcess {
  const path = fileURLToPath(new URL(`./processes/${name}.ts`, import.meta.url));
  // Its output must not get between our own JSON and whoever reads it.
  return fork(path, args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
}

async function firstMessage(child: ChildProcess, what: string): Promise<unknown> {
  const exited = once(child, 'exit').then(() => {
    throw new Error(`${what} ended before being ready`);
  });
  const [message] = (await Promise.race([once(child, 'message'), exited])) as unknown[];
  exited.catch(() => undefined);
  return message;
}

function isAlive(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}

async function stop(child: ChildProcess): Promise<void> {
  if (!isAlive(child)) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}
