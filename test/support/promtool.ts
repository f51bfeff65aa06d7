import { execFile, execFileSync } from 'node:child_process';

/** Prometheus' own checker: `PROMTOOL`, or what PATH has. `undefined` where there is none. */
export const promtool = [process.env['PROMTOOL'], 'promtool'].find(
  (path) => path !== undefined && works(path),
);

/** Why a test that needs it is skipped. */
export const NO_PROMTOOL = 'no promtool: install it (Debian: prometheus), or name it by PROMTOOL';

function works(path: string): boolean {
  try {
    execFileSync(path, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** What promtool says; its exit code is 0 if all is well, and 3 if `check metrics` found only matters of style. */
export async function runPromtool(
  args: readonly string[],
  input = '',
): Promise<{ readonly code: number; readonly output: string }> {
  if (promtool === undefined) throw new Error(NO_PROMTOOL);
  return await new Promise((resolve) => {
    const child = execFile(promtool, args, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    );
    child.stdin?.end(input);
  });
}
