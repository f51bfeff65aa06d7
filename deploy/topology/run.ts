/**
 * Runs what docker-compose.yml describes as processes, and the end-to-end suite against it: `npm run topology`.
 * Options: --record writes docs/topology-record.md; --verbose prints what the processes log; files of tests run those only.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT } from './compose.ts';
import { findPrograms } from './programs.ts';
import { recordOf, type Phase, type TestOfRecord } from './record.ts';
import { BY_IMAGE_WORKERS, BY_OWN_WORKERS, KILLS } from './suite.ts';
import { startTopology, type Topology } from './topology.ts';

/** The suite's, of which receivers and clients in tests know. */
const SECRET_KEYS = `test:${Buffer.alloc(32, 7).toString('base64')}`;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { record: { type: 'boolean', default: false }, verbose: { type: 'boolean', default: false } },
});

interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly startTime: number;
    readonly endTime: number;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

const EVERY_FILE = [...BY_IMAGE_WORKERS, ...KILLS, ...BY_OWN_WORKERS];
const wanted = (files: readonly string[]) =>
  files.filter((file) => positionals.length === 0 || positionals.includes(file));

/** Runs files one after another and tells what came of each. */
async function runSuite(
  name: string,
  files: readonly string[],
  topology: Topology,
  folder: string,
): Promise<Phase> {
  if (files.length === 0) return { name, tests: [], failedFiles: [], seconds: 0 };
  const report = join(folder, 'report.json');
  const startedAt = Date.now();
  const vitest = spawn(
    process.execPath,
    [
      join(ROOT, 'node_modules', 'vitest', 'vitest.mjs'),
      'run',
      '--config',
      'deploy/topology/vitest.config.ts',
    ].concat(['--reporter=default', '--reporter=json', `--outputFile.json=${report}`, ...files]),
    {
      cwd: ROOT,
      stdio: 'inherit',
      env: {
        ...process.env,
        HOOKLADDER_TOPOLOGY: JSON.stringify(topology.facts()),
        HOOKLADDER_ENCRYPTION_KEYS: topology.encryptionKeys,
      },
    },
  );
  await once(vitest, 'exit');
  // A run that was ended from outside has left none: its files count as failed.
  const written = await readFile(report, 'utf8').catch(() => '{"testResults":[]}');
  const { testResults } = JSON.parse(written) as Report;
  await rm(report, { force: true });
  const tests: TestOfRecord[] = testResults.flatMap(({ name: file, assertionResults }) =>
    assertionResults.map(({ status, fullName }) => ({ file: relative(ROOT, file), name: fullName, status })),
  );
  const failedFiles = testResults
    .filter(({ assertionResults, message }) => assertionResults.length === 0 || message !== '')
    .map(({ name: file }) => relative(ROOT, file));
  const missing = files.filter((file) => !testResults.some((result) => relative(ROOT, result.name) === file));
  return {
    name,
    tests,
    failedFiles: [...failedFiles, ...missing],
    seconds: (Date.now() - startedAt) / 1_000,
  };
}

function say(line: string): void {
  console.log(`${new Date().toISOString().slice(11, 19)} ${line}`);
}

async function main(): Promise<boolean> {
  const startedAt = Date.now();
  const folder = await mkdtemp(join(tmpdir(), 'hookladder-topology-report-'));
  await mkdir(join(ROOT, '.hookladder'), { recursive: true });
  const logFile = createWriteStream(join(ROOT, '.hookladder', 'topology.log'));
  const log = (line: string) => {
    logFile.write(`${new Date().toISOString()} ${line}\n`);
    if (options.verbose) say(line);
  };
  const programs = await findPrograms(say);
  const builtAt = Date.now();
  try {
    say('starting PostgreSQL, Temporal, workers and codec server');
    const topology = await startTopology(programs, SECRET_KEYS, log);
    const readySeconds = (Date.now() - builtAt) / 1_000;
    try {
      const phases = [
        await runSuite('by the two workers of the image', wanted(BY_IMAGE_WORKERS), topology, folder),
        await runSuite('processes killed', wanted(KILLS), topology, folder),
      ];
      say('stopping the workers');
      const ends = await topology.stopWorkers();
      phases.push(
        await runSuite('by workers that the tests start', wanted(BY_OWN_WORKERS), topology, folder),
      );
      const record = await recordOf({
        versions: programs.versions,
        phases,
        left: EVERY_FILE.filter((file) => !wanted(EVERY_FILE).includes(file)),
        workerEnds: ends,
        buildSeconds: (builtAt - startedAt) / 1_000,
        readySeconds,
        seconds: (Date.now() - startedAt) / 1_000,
      });
      console.log(record.text);
      if (options.record) await writeFile(join(ROOT, 'docs', 'topology-record.md'), record.page);
      return record.ok;
    } finally {
      await topology.stop();
    }
  } finally {
    await programs.remove();
    await rm(folder, { recursive: true });
    logFile.end();
  }
}

// What the processes log is in .hookladder/topology.log.
process.exitCode = (await main()) ? 0 : 1;
