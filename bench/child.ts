import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Load, LoadArguments, LoadCall, Submitted } from './processes/load.ts';
import type { HostsCall, HostsCounts, HostsReady } from './processes/hosts.ts';
import type { Answers, Arrival, ReceiverCall, ReceiverResult } from './processes/receiver.ts';
import type { WorkerArguments } from './processes/worker.ts';

const STOPPED_WITHIN_MS = 5_000;

/** What a child answers to the call of this number. */
export type Reply<Result> =
  { readonly number: number; readonly result: Result } | { readonly number: number; readonly error: string };

/** A process of workers. */
export interface WorkerProcess {
  readonly pid: number;
  isAlive(): boolean;
  stop(): Promise<void>;
}

/** The receiver's process. */
export interface ReceiverProcess {
  /** Where one merchant receives. */
  url(merchantId: string): string;
  /** How the merchant's endpoint answers from now on; 200 by default. */
  answer(merchantId: string, answers: Answers): Promise<void>;
  /** How many requests the merchant has had. */
  count(merchantId: string): Promise<number>;
  /** The merchant's requests, in order. */
  arrivals(merchantId: string): Promise<readonly Arrival[]>;
  stop(): Promise<void>;
}

/** The process that hands over webhooks. */
export interface LoadProcess {
  /** Resolves when Temporal has them all. */
  submit(load: Load): Promise<Submitted>;
  stop(): Promise<void>;
}

/** How a child runs. */
export interface ChildOptions {
  readonly environment: NodeJS.ProcessEnv;
  /** Options of Node, such as the limit of its heap. */
  readonly nodeOptions?: readonly string[];
}

/** Starts the product's workers in a process of their own and resolves when they poll. */
export async function startWorkerProcess(
  args: WorkerArguments,
  options: ChildOptions,
): Promise<WorkerProcess> {
  return await startWorkers('worker', JSON.stringify(args), options);
}

/** Starts the bare engine's worker in a process of its own and resolves when it polls. */
export async function startBareWorkerProcess(
  bundlePath: string,
  options: ChildOptions,
): Promise<WorkerProcess> {
  return await startWorkers('bare-worker', bundlePath, options);
}

/** Starts the sender of a home-made queue in a process of its own. */
export async function startQueueProcess(databaseUrl: string, options: ChildOptions): Promise<WorkerProcess> {
  return await startWorkers('queue', databaseUrl, options);
}

async function startWorkers(name: string, argument: string, options: ChildOptions): Promise<WorkerProcess> {
  const child = start(name, [argument], options);
  await firstMessage(child, name);
  if (child.pid === undefined) throw new Error(`${name} has no process`);
  return { pid: child.pid, isAlive: () => isAlive(child), stop: () => stop(child) };
}

/** Starts the receiver in a process of its own and resolves when it listens. */
export async function startReceiverProcess(): Promise<ReceiverProcess> {
  const child = start('receiver', [], { environment: process.env });
  const port = Number(await firstMessage(child, 'the receiver'));
  const ask = asking<ReceiverCall, ReceiverResult>(child, 'the receiver');
  return {
    url: (merchantId) => `http://127.0.0.1:${port}/${merchantId}`,
    async answer(merchantId, answers) {
      await ask({ ask: 'answer', path: `/${merchantId}`, answer: answers });
    },
    async count(merchantId) {
      return Number(await ask({ ask: 'count', path: `/${merchantId}` }));
    },
    async arrivals(merchantId) {
      const result = await ask({ ask: 'arrivals', path: `/${merchantId}` });
      return typeof result === 'number' ? [] : result;
    },
    stop: () => stop(child),
  };
}

/** Starts the load generator in a process of its own and resolves when it has connected. */
export async function startLoadProcess(args: LoadArguments, options: ChildOptions): Promise<LoadProcess> {
  const child = start('load', [JSON.stringify(args)], options);
  await firstMessage(child, 'the load generator');
  const ask = asking<LoadCall, Submitted>(child, 'the load generator');
  return { submit: async (load) => await ask({ load }), stop: () => stop(child) };
}

/** Thousands of hosts that are one process. */
export interface HostsProcess extends HostsReady {
  /** How many connections and requests there have been. */
  counts(): Promise<HostsCounts>;
  stop(): Promise<void>;
}

/** Starts the hosts and their name server in a process of their own. */
export async function startHostsProcess(): Promise<HostsProcess> {
  const child = start('hosts', [], { environment: process.env });
  const ready = (await firstMessage(child, 'the hosts')) as HostsReady;
  const ask = asking<HostsCall, HostsCounts>(child, 'the hosts');
  return { ...ready, counts: async () => await ask({}), stop: () => stop(child) };
}

/** `Omit` over each member of the union. */
type Asked<Call> = Call extends { readonly number: number } ? Omit<Call, 'number'> : never;

/** Calls a child by messages; rejects if the child says so or ends. */
function asking<Call extends { readonly number: number }, Result>(
  child: ChildProcess,
  what: string,
): (call: Asked<Call>) => Promise<Result> {
  const waiting = new Map<number, PromiseWithResolvers<Result>>();
  child.on('message', (reply: Reply<Result>) => {
    const call = waiting.get(reply.number);
    waiting.delete(reply.number);
    if ('error' in reply) call?.reject(new Error(`${what}: ${reply.error}`));
    else call?.resolve(reply.result);
  });
  child.once('exit', (code, signal) => {
    for (const call of waiting.values()) call.reject(new Error(`${what} ended by itself: ${signal ?? code}`));
    waiting.clear();
  });
  let calls = 0;
  return async (call) => {
    if (!isAlive(child)) throw new Error(`${what} has ended: ${child.signalCode ?? child.exitCode}`);
    const number = ++calls;
    const waiter = Promise.withResolvers<Result>();
    waiting.set(number, waiter);
    child.send({ number, ...call });
    return await waiter.promise;
  };
}

function start(name: string, args: string[], { environment, nodeOptions = [] }: ChildOptions): ChildProcess {
  const path = fileURLToPath(new URL(`./processes/${name}.ts`, import.meta.url));
  // Its output must not get between our own JSON and whoever reads it.
  return fork(path, args, {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env: environment,
    execArgv: [...nodeOptions],
  });
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
  // Each ends when its parent lets go of it.
  child.disconnect();
  const timer = setTimeout(() => child.kill('SIGKILL'), STOPPED_WITHIN_MS);
  await exited;
  clearTimeout(timer);
}
