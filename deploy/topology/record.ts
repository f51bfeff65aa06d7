import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { ROOT } from './compose.ts';
import { NOT_HERE } from './suite.ts';

/** How a test ended, by Vitest's words. */
export interface TestOfRecord {
  readonly file: string;
  readonly name: string;
  readonly status: string;
}

/** A part of the suite. */
export interface Phase {
  readonly name: string;
  readonly tests: readonly TestOfRecord[];
  /** Those that could not run, or failed outside of a test. */
  readonly failedFiles: readonly string[];
  readonly seconds: number;
}

/** What a run of the topology has seen. */
export interface Run {
  readonly versions: Readonly<Record<string, string>>;
  readonly phases: readonly Phase[];
  /** Files of the suite that were not asked for. */
  readonly left: readonly string[];
  /** How the workers of the image ended at SIGTERM. */
  readonly workerEnds: readonly string[];
  readonly buildSeconds: number;
  readonly readySeconds: number;
  readonly seconds: number;
}

/** The record of a run, and docs/topology-record.md with it in place of the one before. */
export async function recordOf(run: Run): Promise<{ ok: boolean; text: string; page: string }> {
  const { versions, phases, left, workerEnds, buildSeconds, readySeconds, seconds } = run;
  const all = phases.flatMap(({ tests }) => tests);
  const failed = all.filter(({ status }) => status === 'failed');
  const skipped = all.filter(({ status }) => status !== 'failed' && status !== 'passed');
  const failedFiles = phases.flatMap((phase) => phase.failedFiles);
  const graceful = workerEnds.length > 0 && workerEnds.every((end) => end === 'exit code 0');
  const ok = failed.length === 0 && failedFiles.length === 0 && graceful && all.length > 0;
  const lines = [
    `**${ok ? 'All that ran is green' : 'NOT green'}**, ${new Date().toISOString().slice(0, 10)}, commit ${await commit()}.`,
    '',
    '| what | version |',
    '| --- | --- |',
    ...Object.entries(versions).map(([what, version]) => `| ${what} | ${version} |`),
    `| machine | ${availableParallelism()} × ${cpus()[0]?.model ?? 'unknown'}, ${Math.round(totalmem() / 2 ** 30)} GiB |`,
    '',
    '| part | files | passed | failed | skipped | seconds |',
    '| --- | --- | --- | --- | --- | --- |',
    ...phases.map((phase) => rowOf(phase)),
    '',
    `Programs and image were made in ${buildSeconds.toFixed(0)} s (less what was cached), all was ready ${readySeconds.toFixed(0)} s later; in all ${seconds.toFixed(0)} s.`,
    `The workers of the image ended at SIGTERM with: ${workerEnds.join(', ')}.`,
    ...section('Failed', [
      ...failed.map(named),
      ...failedFiles.map((file) => `- ${file}, outside of a test`),
    ]),
    ...section('Skipped', skipped.map(named)),
    ...section(
      'Files',
      phases.flatMap((phase) => filesOf(phase)),
    ),
    ...section(
      'Not run this time',
      left.map((file) => `- ${file}`),
    ),
    ...section(
      'Not here',
      Object.entries(NOT_HERE).map(([what, why]) => `- ${what}: ${why}`),
    ),
  ];
  const text = lines.join('\n');
  const file = join(ROOT, 'docs', 'topology-record.md');
  const [before = ''] = (await readFile(file, 'utf8')).split(/^(?=## Record$)/m);
  const style = { ...(await resolveConfig(file)), filepath: file };
  return { ok, text, page: await format(`${before}## Record\n\n${text}\n`, style) };
}

function rowOf({ name, tests, seconds }: Phase): string {
  const count = (status: string) => tests.filter((test) => test.status === status).length;
  const [passed, failed] = [count('passed'), count('failed')];
  const cells = [
    name,
    filesIn(tests).length,
    passed,
    failed,
    tests.length - passed - failed,
    seconds.toFixed(0),
  ];
  return `| ${cells.join(' | ')} |`;
}

function filesOf({ name, tests }: Phase): string[] {
  return filesIn(tests).map((file) => {
    const passed = tests.filter((test) => test.file === file && test.status === 'passed').length;
    return `- ${file} (${name}): ${passed} passed`;
  });
}

function filesIn(tests: readonly TestOfRecord[]): string[] {
  return [...new Set(tests.map(({ file }) => file))];
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', `### ${title}`, '', ...lines];
}

function named({ file, name }: TestOfRecord): string {
  return `- ${file}: ${name}`;
}

async function commit(): Promise<string> {
  const hash = await git('rev-parse', '--short', 'HEAD');
  const changed = await git('status', '--porcelain', '--', '.', ':!docs');
  return changed === '' ? hash : `${hash} with changes`;
}

async function git(...args: string[]): Promise<string> {
  return (await promisify(execFile)('git', args, { cwd: ROOT })).stdout.trim();
}
