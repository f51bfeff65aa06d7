/**
 * `npm run mutants [RULE …]`: seeds each fault of the list into a copy of the sources and sees that a test
 * named after the rule fails. Ends with `N passed, N failed`, where passed means noticed.
 */
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { mutants, type Mutant } from './list.ts';

const project = fileURLToPath(new URL('../..', import.meta.url));

/** What of vitest's JSON report is looked at. */
interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

async function copyProject(): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'hookladder-mutant-'));
  for (const name of ['src', 'test', 'package.json', 'vitest.config.ts', 'tsconfig.json']) {
    await cp(join(project, name), join(copy, name), { recursive: true });
  }
  await mkdir(join(project, '.hookladder'), { recursive: true });
  for (const name of ['node_modules', '.hookladder']) await symlink(join(project, name), join(copy, name));
  return copy;
}

/** Tells why the fault went unnoticed, or `undefined` if a test of its rule failed. */
async function unnoticed(
  copy: string,
  { rule, file, find, replace, tests }: Mutant,
): Promise<string | undefined> {
  const path = join(copy, file);
  const source = await readFile(path, 'utf8');
  if (source.split(find).length !== 2) return `"${find}" does not stand exactly once in ${file}`;
  await writeFile(
    path,
    source.replace(find, () => replace),
  );
  const report = await runTests(copy, rule, tests);
  await writeFile(path, source);
  const ofRule = report?.testResults.flatMap(({ assertionResults }) => assertionResults) ?? [];
  const named = ofRule.filter(({ fullName, status }) => ruleIn(rule).test(fullName) && status !== 'skipped');
  if (named.length === 0) return `no test named after ${rule} ran in ${tests}`;
  return named.some(({ status }) => status === 'failed')
    ? undefined
    : `${named.length} tests of ${rule} passed all the same`;
}

async function runTests(copy: string, rule: string, tests: string): Promise<Report | undefined> {
  const output = join(copy, 'report.json');
  await rm(output, { force: true });
  const vitest = join(project, 'node_modules/vitest/vitest.mjs');
  const names = `(^|\\s)${rule}(\\s|$)`;
  const args = [
    vitest,
    'run',
    tests,
    '-t',
    names,
    '--reporter=json',
    `--outputFile=${output}`,
    '--testTimeout=40000',
    '--bail=1',
  ];
  await new Promise<void>((resolve) => {
    execFile(process.execPath, args, { cwd: copy, maxBuffer: 64 * 1024 * 1024 }, () => resolve());
  });
  return await readFile(output, 'utf8').then(
    (text) => JSON.parse(text) as Report,
    () => undefined,
  );
}

function ruleIn(rule: string): RegExp {
  return new RegExp(`(^|\\s)${rule}(\\s|$)`);
}

const chosen = process.argv.slice(2);
const unknown = chosen.filter((rule) => !mutants.some((mutant) => mutant.rule === rule));
if (unknown.length > 0) {
  console.error(
    `no mutant for ${unknown.join(', ')}; there are ${mutants.map(({ rule }) => rule).join(', ')}`,
  );
  process.exit(2);
}
const copy = await copyProject();
let failed = 0;
const run = mutants.filter(({ rule }) => chosen.length === 0 || chosen.includes(rule));
for (const mutant of run) {
  const reason = await unnoticed(copy, mutant);
  if (reason !== undefined) failed += 1;
  console.log(
    `${reason === undefined ? 'noticed' : 'MISSED '} ${mutant.rule} ${mutant.file}${reason === undefined ? '' : `: ${reason}`}`,
  );
}
await rm(copy, { recursive: true });
console.log(`${run.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
