import { chmod, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

const WORK_PREFIX = 'download-';
/** Far above any download, so the work folder of a process that is still busy is never taken away. */
const ABANDONED_AFTER_MS = 24 * 60 * 60 * 1000;

/**
 * Puts an executable at `target` in one step: `produce` writes it in a folder of its own beside the target and returns
 * its path, and a rename puts it in place. Processes that do this at once each see a whole file or none.
 */
export async function installExecutable(
  target: string,
  produce: (workFolder: string) => Promise<string>,
): Promise<void> {
  const folder = dirname(target);
  await mkdir(folder, { recursive: true });
  await removeAbandonedWork(folder);
  const work = await mkdtemp(join(folder, WORK_PREFIX));
  try {
    const file = await produce(work);
    await chmod(file, 0o755);
    await rename(file, target);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** A Ctrl-C in the middle of a download leaves up to 200 MB behind. */
async function removeAbandonedWork(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.startsWith(WORK_PREFIX)) continue;
    const path = join(folder, name);
    const age = await stat(path).then(
      ({ mtimeMs }) => Date.now() - mtimeMs,
      () => 0,
    );
    if (age > ABANDONED_AFTER_MS) await rm(path, { recursive: true, force: true });
  }
}
