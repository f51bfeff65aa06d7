import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const entry = fileURLToPath(new URL('../../src/worker.ts', import.meta.url));

/** The real worker as a process of its own, to be killed. */
export interface WorkerProcess {
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  /** SIGTERM; resolves with the exit code. */
  terminate(): Promise<number | null>;
  /** Resolves when it is gone, for whatever reason. */
  readonly exited: Promise<unknown>;
  /** Lines it has logged. */
  readonly lines: string[];
}

/**
 * Starts a worker with this environment, and nothing of ours but `PATH`; resolves when both of its workers poll.
 * @param args of Node; by default the sources' worker.
 */
export async function spawnWorker(
  environment: Record<string, string>,
  args: readonly string[] = [entry],
): Promise<WorkerProcess> {
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env['PATH'], ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const killAtExit = (): void => void child.kill('SIGKILL');
  process.once('exit', killAtExit);
  const exited = once(child, 'exit').finally(() => process.off('exit', killAtExit));
  const lines: string[] = [];
  await untilPolling(child, lines, exited);
  return {
    lines,
    exited,
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
