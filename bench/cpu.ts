import { readdir, readFile } from 'node:fs/promises';

/** Linux reports processor time in hundredths of a second on every architecture. */
const TICK_MS = 10;

/** Fields of `/proc/PID/stat`, numbered as in proc(5). */
const FIELD = { parent: 4, user: 14, system: 15, childrenUser: 16, childrenSystem: 17 } as const;

/**
 * Processor time that a process has used since it began, in user and system mode, over all its threads, in ms.
 * @throws where there is no `/proc`.
 */
export async function cpuMsOf(pid: number): Promise<number> {
  const field = await statOf(pid);
  return (field(FIELD.user) + field(FIELD.system)) * TICK_MS;
}

/** The same with its children, those that have ended too. */
export async function cpuMsOfFamily(pid: number): Promise<number> {
  const field = await statOf(pid);
  const ended = (field(FIELD.childrenUser) + field(FIELD.childrenSystem)) * TICK_MS;
  const others = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  // A process may end while it is looked at.
  const alive = await Promise.all(
    others.map(async (other) => {
      const isChild = await statOf(other).then(
        (of) => of(FIELD.parent) === pid,
        () => false,
      );
      return isChild ? await cpuMsOf(other).catch(() => 0) : 0;
    }),
  );
  return (await cpuMsOf(pid)) + ended + alive.reduce((sum, ms) => sum + ms, 0);
}

async function statOf(pid: number): Promise<(field: number) => number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch((error: unknown) => {
    throw new Error(`the processor time of process ${pid} cannot be read: this needs Linux`, {
      cause: error,
    });
  });
  // The name of the program may hold anything; what follows its last bracket begins with the third field.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (field) => Number(fields[field - 3]);
}

/** Memory of a process that is in RAM now, MiB. */
export async function residentMiBOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1_024;
}
