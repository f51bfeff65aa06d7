import { execFile } from 'node:child_process';

/** How a command ended; `output` is its standard output followed by its standard error. */
interface CommandResult {
  readonly ok: boolean;
  readonly output: string;
}

/** Runs a command to its end. Rejects only when it could not be started (`code: 'ENOENT'` if it is not installed). */
export type RunCommand = (
  command: string,
  args: readonly string[],
  timeoutMs: number,
) => Promise<CommandResult>;

/** Runs a command without a shell; one that is still running after `timeoutMs` milliseconds is killed and not ok. */
export const runCommand: RunCommand = (command, args, timeoutMs) =>
  new Promise((resolve, reject) => {
    execFile(command, args, { timeout: timeoutMs, killSignal: 'SIGKILL' }, (error, stdout, stderr) => {
      // A string code (ENOENT, EACCES) means that nothing ran; an exit status is a number.
      if (error !== null && typeof error.code === 'string') {
        reject(error);
        return;
      }
      const late = error?.killed === true ? `\nkilled after ${timeoutMs} ms` : '';
      resolve({ ok: error === null, output: `${stdout}${stderr}${late}` });
    });
  });
