import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { LocalServerStateInUse } from './server-errors.ts';

const LEFTOVER_STOP_MS = 10_000;
const POLL_MS = 50;

interface Holder {
  readonly ownerPid: number;
  /** Missing for the moment between taking the lock and the server's start. */
  readonly serverPid?: number;
  readonly address?: string;
}

export interface StateLock {
  /** Notes which server uses the state now, for the next one who finds the lock. */
  note(serverPid: number | undefined, address: string): Promise<void>;
  release(): Promise<void>;
}

/**
 * Takes the state file of a local server for this process: two servers on one SQLite file spoil it. A server that its
 * owner left behind is stopped first.
 * @throws LocalServerStateInUse if another server uses the state.
 */
export async function lockState(dbFile: string, log: (line: string) => void): Promise<StateLock> {
  const lockFile = `${dbFile}.lock`;
  await mkdir(dirname(dbFile), { recursive: true });
  while (!(await createLock(lockFile))) {
    const holder = await readHolder(lockFile);
    if (holder !== undefined) await clearHolder(holder, dbFile, lockFile, log);
    await rm(lockFile, { force: true });
  }
  return {
    async note(serverPid, address) {
      const holder: Holder = {
        ownerPid: process.pid,
        address,
        ...(serverPid !== undefined && { serverPid }),
      };
      await rename(await writeAside(lockFile, holder), lockFile);
    },
    release: () => rm(lockFile, { force: true }),
  };
}

/** A link, unlike an exclusive create, appears with its content. */
async function createLock(lockFile: string): Promise<boolean> {
  const aside = await writeAside(lockFile, { ownerPid: process.pid });
  try {
    await link(aside, lockFile);
    return true;
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  } finally {
    await rm(aside, { force: true });
  }
}

async function writeAside(lockFile: string, holder: Holder): Promise<string> {
  const aside = `${lockFile}.${randomUUID()}`;
  await writeFile(aside, JSON.stringify(holder));
  return aside;
}

async function readHolder(lockFile: string): Promise<Holder | undefined> {
  try {
    const holder: unknown = JSON.parse(await readFile(lockFile, 'utf8'));
    return isHolder(holder) ? holder : undefined;
  } catch (error) {
    if (hasCode(error, 'ENOENT') || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function isHolder(value: unknown): value is Holder {
  return (
    typeof value === 'object' && value !== null && 'ownerPid' in value && typeof value.ownerPid === 'number'
  );
}

/** Returns when nobody uses the state any more. */
async function clearHolder(
  { ownerPid, serverPid, address }: Holder,
  dbFile: string,
  lockFile: string,
  log: (line: string) => void,
): Promise<void> {
  const inUse = (user: string): LocalServerStateInUse => new LocalServerStateInUse(dbFile, lockFile, user);
  if (serverPid === undefined) {
    if (isAlive(ownerPid)) throw inUse(`process ${ownerPid}, which is starting a server`);
    return;
  }
  const use = await useOf(dbFile, serverPid);
  if (use === 'none') return;
  if (use === 'unknown' || isAlive(ownerPid)) {
    throw inUse(
      `the server at ${address ?? 'an unknown address'} (pid ${serverPid}, started by ${ownerPid})`,
    );
  }
  log(`stopping the Temporal server that process ${ownerPid} left behind (pid ${serverPid}) …`);
  const killAt = Date.now() + LEFTOVER_STOP_MS;
  signal(serverPid, 'SIGTERM');
  while ((await useOf(dbFile, serverPid)) !== 'none') {
    if (Date.now() > killAt) signal(serverPid, 'SIGKILL');
    await delay(POLL_MS);
  }
}

/** Whether `pid` is a server on this state: the number may have passed to a process that has nothing to do with it. */
async function useOf(dbFile: string, pid: number): Promise<'server' | 'none' | 'unknown'> {
  if (!isAlive(pid)) return 'none';
  const commandLine = await readCommandLine(pid);
  if (commandLine === undefined) return isAlive(pid) ? 'unknown' : 'none';
  // A process that is dead but not reaped (a container without an init) has an empty command line.
  return commandLine.includes(dbFile) ? 'server' : 'none';
}

/** `undefined` if this system does not tell. */
async function readCommandLine(pid: number): Promise<string | undefined> {
  try {
    return await readFile(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    try {
      return (await promisify(execFile)('ps', ['-ww', '-o', 'command=', '-p', String(pid)])).stdout;
    } catch {
      return undefined;
    }
  }
}

function isAlive(pid: number): boolean {
  return signal(pid, 0);
}

function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch (error) {
    // Somebody else's process is there, though it takes no signal from this user.
    return hasCode(error, 'EPERM');
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
