import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { ENCRYPTION, SECRET_KEYS, temporalAddress } from './stack.ts';

const root = join(import.meta.dirname, '..', '..');

/** What a run of the command line left behind. */
export interface CliRun {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The built command line, run as processes against the suite's server. */
export interface Cli {
  run(args: readonly string[], how?: CliHow): Promise<CliRun>;
  /** Runs with `--json`; parses standard output, or else standard error. */
  json(
    args: readonly string[],
    how?: CliHow,
  ): Promise<{ exitCode: number | null; answer: unknown; text: string }>;
  /** Starts it and lets it run. */
  start(args: readonly string[], how?: CliHow): ChildProcess;
  remove(): Promise<void>;
}

export interface CliHow {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Builds the package and gives its command line. */
export async function buildCli(): Promise<Cli> {
  await mkdir(join(root, '.hookladder'), { recursive: true });
  const folder = await mkdtemp(join(root, '.hookladder', 'cli-'));
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const options = ['-p', join(root, 'tsconfig.build.json'), '--outDir', folder, '--declaration', 'false'];
  await promisify(execFile)(process.execPath, [compiler, ...options]);
  const entry = join(folder, 'cli', 'main.js');

  function start(args: readonly string[], { env = {} }: CliHow = {}): ChildProcess {
    return spawn(process.execPath, [entry, ...args], {
      env: {
        PATH: process.env['PATH'],
        TEMPORAL_ADDRESS: temporalAddress(),
        HOOKLADDER_SECRET_KEYS: SECRET_KEYS.keys,
        HOOKLADDER_ENCRYPTION_KEYS: ENCRYPTION.keys,
        HOOKLADDER_ALLOWED_NETWORKS: '127.0.0.0/8',
        ...env,
      },
      stdio: 'pipe',
    });
  }

  async function run(args: readonly string[], how: CliHow = {}): Promise<CliRun> {
    const child = start(args, how);
    child.stdin?.end(how.input ?? '');
    const { stdout, stderr } = child;
    if (stdout === null || stderr === null) throw new Error('the command line has no output');
    const [out, err] = await Promise.all([text(stdout), text(stderr), once(child, 'close')]);
    return { exitCode: child.exitCode, stdout: out, stderr: err };
  }

  return {
    run,
    start,
    async json(args, how) {
      const { exitCode, stdout, stderr } = await run([...args, '--json'], how);
      return { exitCode, answer: JSON.parse(stdout === '' ? stderr : stdout), text: stdout + stderr };
    },
    remove: async () => await rm(folder, { recursive: true, force: true }),
  };
}
