import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { RunCommand } from './run-command.ts';

const DOWNLOAD_SITE = 'https://temporal.download';
/** A closed network must not hold up the next way of finding a binary. */
const CONNECT_LIMIT_MS = 5_000;
/** A connection that delivers nothing for this long is given up. */
const STALL_LIMIT_MS = 30_000;
const UNPACK_LIMIT_MS = 120_000;

const OS_NAMES: Readonly<Record<string, string>> = { linux: 'linux', darwin: 'darwin', win32: 'windows' };
const ARCH_NAMES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

interface OfficialDownload {
  readonly version: string;
  /** As `process.platform` and `process.arch` say it: `linux-x64`. */
  readonly platform: string;
  /** An empty folder that the binary is written to. */
  readonly folder: string;
  readonly fetch: typeof fetch;
  readonly run: RunCommand;
  readonly log: (line: string) => void;
}

/**
 * Fetches the Temporal CLI from the place that the SDK's own test environment downloads it from (which has no way to
 * download only), and returns the path of the unpacked binary.
 * @throws Error with a reason fit to show when the site is out of reach (5 s) or the archive is not what it should be.
 */
export async function downloadOfficialCli(download: OfficialDownload): Promise<string> {
  download.log(`looking for Temporal CLI ${download.version} at ${DOWNLOAD_SITE} …`);
  const { archiveUrl, fileToExtract } = await askWhereTheArchiveIs(download);
  download.log(`downloading Temporal CLI ${download.version} from ${new URL(archiveUrl).host} …`);
  const archive = join(download.folder, 'archive');
  await saveTo(archive, archiveUrl, download.fetch);
  // Every system that the archive is made for brings tar; naming the one entry leaves anything else packed.
  const { ok, output } = await download.run(
    'tar',
    [archiveUrl.endsWith('.zip') ? '-xf' : '-xzf', archive, '-C', download.folder, fileToExtract],
    UNPACK_LIMIT_MS,
  );
  if (!ok) throw new Error(`the archive could not be unpacked: ${output.trim()}`);
  return join(download.folder, fileToExtract);
}

interface ArchiveInfo {
  readonly archiveUrl: string;
  readonly fileToExtract: string;
}

async function askWhereTheArchiveIs({ version, platform, fetch }: OfficialDownload): Promise<ArchiveInfo> {
  const [os = '', arch = ''] = platform.split('-');
  const osName = OS_NAMES[os];
  const archName = ARCH_NAMES[arch];
  if (osName === undefined || archName === undefined) throw new Error(`no build for ${platform}`);
  const query = new URLSearchParams({ arch: archName, platform: osName, format: 'tar.gz' });
  const response = await open(`${DOWNLOAD_SITE}/cli/v${version}?${query.toString()}`, fetch);
  const info: unknown = await response.json();
  if (!isArchiveInfo(info)) throw new Error(`${DOWNLOAD_SITE} gave an answer that names no https archive`);
  return info;
}

function isArchiveInfo(info: unknown): info is ArchiveInfo {
  if (typeof info !== 'object' || info === null) return false;
  const { archiveUrl, fileToExtract } = info as Partial<Record<keyof ArchiveInfo, unknown>>;
  return (
    typeof archiveUrl === 'string' &&
    URL.parse(archiveUrl)?.protocol === 'https:' &&
    typeof fileToExtract === 'string' &&
    // The name becomes a path and an argument of tar.
    /^\w[\w.]*$/.test(fileToExtract)
  );
}

/** A response whose headers came within the connect limit; its body has no limit from here. */
async function open(url: string, fetchUrl: typeof fetch): Promise<Response> {
  const { host } = new URL(url);
  const connecting = new AbortController();
  const timer = setTimeout(() => connecting.abort(), CONNECT_LIMIT_MS);
  try {
    const response = await fetchUrl(url, { signal: connecting.signal });
    if (!response.ok) throw new Error(`${host} answered ${response.status}`);
    return response;
  } catch (error) {
    if (connecting.signal.aborted) {
      throw new Error(`${host} gave no answer within ${CONNECT_LIMIT_MS / 1000} s`, { cause: error });
    }
    throw new Error(`${host} cannot be reached (${rootReason(error)})`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** fetch says only "fetch failed"; the reason is in the cause. */
function rootReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.cause !== undefined) return rootReason(error.cause);
  return error.message;
}

async function saveTo(file: string, url: string, fetchUrl: typeof fetch): Promise<void> {
  const { body } = await open(url, fetchUrl);
  if (body === null) throw new Error(`${url} has no content`);
  const stalled = new AbortController();
  const timer = setTimeout(() => stalled.abort(new Error('the download stalled')), STALL_LIMIT_MS);
  try {
    await pipeline(
      Readable.fromWeb(body),
      async function* keepAlive(chunks: AsyncIterable<Uint8Array>) {
        for await (const chunk of chunks) {
          timer.refresh();
          yield chunk;
        }
      },
      createWriteStream(file, { flush: true }),
      { signal: stalled.signal },
    );
  } finally {
    clearTimeout(timer);
  }
}
