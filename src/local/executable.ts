import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import type { RunCommand } from './run-command.ts';

/** Whether `path` is a file (or a link to one) that this user may execute. */
export async function isExecutableFile(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

/** The first executable file called `name` in the folders of `pathVariable`, or `undefined`. */
export async function findOnPath(name: string, pathVariable: string): Promise<string | undefined> {
  for (const folder of pathVariable.split(delimiter)) {
    if (folder === '') continue;
    const candidate = join(folder, name);
    if (await isExecutableFile(candidate)) return candidate;
  }
  return undefined;
}

/** What `temporal --version` says ("1.9.1"), or `undefined` if the file is no Temporal CLI. */
export async function readTemporalVersion(path: string, run: RunCommand): Promise<string | undefined> {
  try {
    const { ok, output } = await run(path, ['--version'], 20_000);
    return ok ? /temporal version v?(\d+\.\d+\.\d+\S*)/.exec(output)?.[1] : undefined;
  } catch {
    return undefined;
  }
}

/** Whether version `a` is older than `b`, by their three numbers; what follows them is ignored. */
export function isOlder(a: string, b: string): boolean {
  const theirs = versionNumbers(b);
  for (const [index, mine] of versionNumbers(a).entries()) {
    const other = theirs[index] ?? 0;
    if (mine !== other) return mine < other;
  }
  return false;
}

function versionNumbers(version: string): number[] {
  return (version.match(/\d+/g) ?? []).slice(0, 3).map(Number);
}
