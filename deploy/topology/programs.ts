import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { findTemporalBinary } from '../../src/local/temporal-binary.ts';
import { ROOT } from './compose.ts';

/** What runs, by path. */
export interface Programs {
  readonly postgresBin: string;
  /** The Temporal server. */
  readonly server: string;
  /** `temporal-sql-tool`. */
  readonly sqlTool: string;
  /** The Temporal CLI. */
  readonly cli: string;
  /** The folder with the contents of the image. */
  readonly image: string;
  /** Of each, as it says by itself. */
  readonly versions: Readonly<Record<string, string>>;
  remove(): Promise<void>;
}

const DEBIAN = '/usr/lib/postgresql';
const BUILT = join(ROOT, '.hookladder', 'topology');

/**
 * Finds PostgreSQL, builds the Temporal server and its schema tool from their Go module, and the contents of the image.
 * @throws Error that names what is missing and how to get it.
 */
export async function findPrograms(log: (line: string) => void): Promise<Programs> {
  const postgresBin = findPostgres();
  const { path: cli } = await findTemporalBinary({ log });
  const go = await findGo();
  log('building the Temporal server: minutes the first time');
  await mkdir(BUILT, { recursive: true });
  const module = 'go.temporal.io/server';
  // As its own Makefile does. One package at a time: others use this machine.
  await run(
    go,
    ['build', '-p', '1', '-tags', 'disable_grpc_modules', '-o', `${BUILT}/`].concat([
      `${module}/cmd/server`,
      `${module}/cmd/tools/sql`,
    ]),
    { cwd: import.meta.dirname, env: { ...process.env, CGO_ENABLED: '0' } },
  );
  const [server, sqlTool] = [join(BUILT, 'server'), join(BUILT, 'sql')];
  log('making the contents of the image');
  // Outside of the repository, whose packages would be found otherwise.
  const image = await mkdtemp(join(tmpdir(), 'hookladder-image-'));
  await run('sh', [join(ROOT, 'deploy', 'image.sh'), image], { env: process.env });
  const versions = {
    PostgreSQL: await run(join(postgresBin, 'postgres'), ['--version']),
    'Temporal server': `${await run(server, ['--version'])}, built by ${await run(go, ['version'])}`,
    'Temporal CLI': await run(cli, ['--version']),
    Node: process.version,
  };
  return {
    postgresBin,
    server,
    sqlTool,
    cli,
    image,
    versions,
    remove: async () => await rm(image, { recursive: true, force: true }),
  };
}

function findPostgres(): string {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).map(Number) : [];
  const bin = join(DEBIAN, String(Math.max(0, ...versions)), 'bin');
  if (!existsSync(join(bin, 'postgres'))) {
    throw new Error(`there is no PostgreSQL in ${DEBIAN}: apt-get install postgresql`);
  }
  return bin;
}

async function findGo(): Promise<string> {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/local/go/bin'];
  const go = folders.map((folder) => join(folder, 'go')).find((file) => existsSync(file));
  if (go === undefined)
    throw new Error('there is no Go, which builds the Temporal server: https://go.dev/doc/install');
  return go;
}

async function run(
  program: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const { stdout } = await promisify(execFile)(program, args, { ...options, maxBuffer: 64 * 2 ** 20 });
  return stdout.trim();
}
