import { readFile } from 'node:fs/promises';

/** Linux reports processor time in hundredths of a second on every architecture. */
const TICK_MS = 10;

/**
 * Processor time that a process has used since it began, in user and system mode, over all its threads, in ms.
 * @throws where there is no `/proc`.
 */
export async function cpuMsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch((error: unknown) => {
    throw new Error(`the processor time of process ${pid} cannot be read: this needs Linux`, {
      cause: error,
    });
  });
  // The name of the program may hold anything; what follows its last bracket begins with the third field.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[14 - 3]) + Number(fields[15 - 3])) * TICK_MS;
}

/** Memory of a process that is in RAM now, MiB. */
export async function residentMiBOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1_024;
}
