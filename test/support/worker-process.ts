import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { ENCRYPTION, LOOPBACK, SECRET_KEYS, temporalAddress } from './stack.ts';

const entry = fileURLToPath(new URL('../../src/worker.ts', import.meta.url));

/** The real worker as a process of its own, to be killed. */
export interface WorkerProcess {
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  /** SIGTERM; resolves with the exit code. */
  terminate(): Promise<number | null>;
  /** Lines it has logged. */
  readonly lines: string[];
}

/** Starts a worker process and resolves when both of its workers poll. */
export async function startWorkerProcess(environment: Record<string, string> = {}): Promise<WorkerProcess> {
  const keys =
    'HOOKLADDER_SECRET_KEYS_FILE' in environment ? {} : { HOOKLADDER_SECRET_KEYS: SECRET_KEYS.keys };
  const child = spawn(process.execPath, [entry], {
    env: {
      PATH: process.env['PATH'],
      TEMPORAL_ADDRESS: temporalAddress(),
      HOOKLADDER_ALLOWED_NETWORKS: LOOPBACK.join(','),
      HOOKLADDER_ENCRYPTION_KEYS: ENCRYPTION.keys,
      ...keys,
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit');
  const lines: string[] = [];
  await untilPolling(child, lines, exited);
  return {
    lines,
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
    async terminate() {
      child.kill('SIGTERM');
      await exited;
      return child.exitCode;
    },
  };
}

async function untilPolling(child: ChildProcess, lines: string[], exited: Promise<unknown>): Promise<void> {
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('the worker has no output');
  const { promise, resolve } = Promise.withResolvers<void>();
  let running = 0;
  for (const stream of [stdout, stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line);
      if (line.includes('"state":"RUNNING"')) running += 1;
      if (running === 2) resolve();
    });
  }
  await Promise.race([
    promise,
    exited.then(() => {
      throw new Error(`the worker ended before it polled:\n${lines.join('\n')}`);
    }),
  ]);
}
