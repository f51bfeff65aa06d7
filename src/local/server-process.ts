import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { messageOf } from '../message-of.ts';

const TAIL_LINES = 40;

/**
 * Runs the server under a shell that becomes the server (`exec`, so the pid is the server's), after leaving a guard
 * behind that waits on descriptor 3. The parent holds the other end: a line says that the server has ended by itself, and
 * an end of file that the parent has died, by whatever signal, so the server must go too.
 */
const GUARDED_START = `
server=$$
(
  read -r released <&3 && exit
  kill -TERM $server || exit
  for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 1; kill -0 $server || exit; done
  kill -KILL $server
) >/dev/null 2>&1 &
exec "$@" 3<&-
`;

export interface ServerProcess {
  readonly child: ChildProcess;
  /** Resolves when the process has ended, with how: "exit code 1", "SIGKILL". */
  readonly ended: Promise<string>;
  hasEnded(): boolean;
  /** The last lines that the process wrote. */
  outputTail(): string;
  /** SIGTERM, then SIGKILL after `limitMs` milliseconds; resolves when the process has ended. */
  stop(limitMs: number): Promise<void>;
  /** SIGKILL, without waiting. */
  kill(): void;
}

/** Whom a process runs as, by number, and its environment; as this process if not given. */
export interface RunAs {
  readonly uid?: number;
  readonly gid?: number;
  readonly env?: NodeJS.ProcessEnv;
}

/**
 * Starts a server process that a Ctrl-C in the terminal does not reach (it has a session of its own, so that workers can
 * shut down first) and that does not outlive this process, even one killed with SIGKILL. It does not keep this process
 * from ending.
 */
export function startServerProcess(
  command: string,
  args: readonly string[],
  onOutput: (line: string) => void,
  runAs: RunAs = {},
): ServerProcess {
  const child =
    process.platform === 'win32'
      ? spawn(command, args, { ...runAs, stdio: ['ignore', 'pipe', 'pipe'], windowsHide: true })
      : spawn('/bin/sh', ['-c', GUARDED_START, 'sh', command, ...args], {
          ...runAs,
          stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
          detached: true,
        });
  child.unref();
  for (const stream of child.stdio) if (stream instanceof Socket) stream.unref();

  const tail = keepTail(child, onOutput);
  const ended = untilEnded(child);
  let over = false;
  const killAtExit = (): void => void child.kill('SIGKILL');
  // Windows has no guard.
  if (process.platform === 'win32') process.once('exit', killAtExit);
  // Not `ended`: that waits for the guard's line too.
  child.once('exit', () => releaseGuard(child));
  void ended.then(() => {
    over = true;
    process.off('exit', killAtExit);
  });

  return {
    child,
    ended,
    hasEnded: () => over,
    outputTail: () => tail.join('\n'),
    async stop(limitMs) {
      if (over) return;
      child.ref();
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), limitMs);
      await ended;
      clearTimeout(timer);
    },
    kill: () => void child.kill('SIGKILL'),
  };
}

function keepTail(child: ChildProcess, onOutput: (line: string) => void): string[] {
  const tail: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue;
    createInterface({ input: stream }).on('line', (line) => {
      tail.push(line);
      if (tail.length > TAIL_LINES) tail.shift();
      onOutput(line);
    });
  }
  return tail;
}

/** Waits for the streams too (`close`), so the tail is whole when the end is known. */
async function untilEnded(child: ChildProcess): Promise<string> {
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    return signal ?? `exit code ${code}`;
  } catch (error) {
    return messageOf(error);
  }
}

function releaseGuard(child: ChildProcess): void {
  const line = child.stdio[3];
  if (!(line instanceof Socket)) return;
  // The guard may be gone already, killed with the session.
  line.on('error', () => undefined);
  line.end('released\n', () => line.destroy());
}
