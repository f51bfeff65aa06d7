import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

/** What a program left behind. */
export interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, with bytes on its standard input; rejects if there is no such program. */
export async function runProgram(
  command: string,
  args: readonly string[],
  { input = '', env = {} }: { input?: string | Uint8Array; env?: NodeJS.ProcessEnv } = {},
): Promise<Ended> {
  const child = spawn(command, args, { env: { ...process.env, ...env } });
  const exit = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  // A program that ends without reading its input closes the pipe; its exit tells what came of it.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  const [exitCode, stdout, stderr] = await Promise.all([exit, text(child.stdout), text(child.stderr)]);
  return { exitCode, stdout, stderr };
}
