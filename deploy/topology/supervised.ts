import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { startServerProcess, type RunAs, type ServerProcess } from '../../src/local/server-process.ts';

/** A process that is started again whenever it ends, as Docker does by `restart: unless-stopped`. */
export interface Supervised {
  /** SIGTERM, and SIGKILL 45 s later; resolves with how it ended. */
  stop(): Promise<string>;
}

export interface SupervisedOptions extends RunAs {
  readonly name: string;
  readonly command: readonly string[];
  /** Program and arguments of the check that ends with 0 when the process is ready. */
  readonly healthcheck: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Has the process's id, anew after each start. */
  readonly pidFile: string;
  readonly log: (line: string) => void;
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 60_000;
/** Who ran for so long begins with the first pause again. */
const RAN_WELL_MS = 10_000;
const HEALTHY_WITHIN_MS = 300_000;

/**
 * Starts a process and resolves when its health check is content.
 * @throws Error with the last lines that the process wrote, if that takes longer than 5 minutes.
 */
export async function supervise(options: SupervisedOptions): Promise<Supervised> {
  const { name, command, pidFile, log, env, uid, gid } = options;
  const [program = '', ...args] = command;
  const runAs = { env, ...(uid === undefined ? {} : { uid }), ...(gid === undefined ? {} : { gid }) };
  mkdirSync(dirname(pidFile), { recursive: true });
  let stopping = false;
  let pauseMs = FIRST_PAUSE_MS;

  const start = (): ServerProcess => {
    const startedAt = Date.now();
    const started = startServerProcess(program, args, (line) => log(`${name}: ${line}`), runAs);
    writeFileSync(pidFile, String(started.child.pid));
    void started.ended.then(async (how) => {
      log(`${name}: ended (${how})`);
      if (stopping) return;
      pauseMs =
        Date.now() - startedAt > RAN_WELL_MS ? FIRST_PAUSE_MS : Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      await sleep(pauseMs);
      if (!stopping) current = start();
    });
    return started;
  };
  let current = start();
  const stop = async (): Promise<string> => {
    stopping = true;
    await current.stop(45_000);
    return await current.ended;
  };
  try {
    await untilHealthy(options);
  } catch (error) {
    const tail = current.outputTail();
    await stop();
    throw new Error(`${name} did not become healthy:\n${tail}`, { cause: error });
  }
  return { stop };
}

async function untilHealthy({ healthcheck, env }: SupervisedOptions): Promise<void> {
  const [program = '', ...args] = healthcheck;
  const end = Date.now() + HEALTHY_WITHIN_MS;
  for (;;) {
    try {
      await promisify(execFile)(program, args, { env, timeout: 10_000 });
      return;
    } catch (error) {
      if (Date.now() > end) throw error;
    }
    await sleep(500);
  }
}
