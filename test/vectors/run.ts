/**
 * `npm run vectors -- DIR`: runs every case of a folder of vectors. One line for each case on stdout, a line
 * more for each difference, and at last `N passed, N failed`. Exit code 0 if none failed, 1 if any did, 2 if it
 * was called wrongly.
 */
import { parseArgs } from 'node:util';
import { readVectors } from './cases.ts';
import type { LocalStack } from './local-stack.ts';
import { outcomeInWords, type Outcome } from './outcome.ts';
import { runCases } from './run-cases.ts';

const log = (line: string) => console.error(line);

// The SDK would only stop the workers, and the cases would wait for them. The server ends with this process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

const folder = folderFromArguments();
if (folder === undefined) {
  log('usage: npm run vectors -- DIR');
  process.exitCode = 2;
} else {
  process.exitCode = (await run(folder)) ? 0 : 1;
}

function folderFromArguments(): string | undefined {
  try {
    const { positionals } = parseArgs({ allowPositionals: true });
    return positionals.length === 1 ? positionals[0] : undefined;
  } catch (error) {
    log(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

async function run(dir: string): Promise<boolean> {
  const { cases, unusable } = await readVectors(dir);
  const outcomes: Outcome[] = [];
  const tell = (outcome: Outcome) => {
    outcomes.push(outcome);
    console.log(outcomeInWords(outcome));
    log(`${outcomes.length} of ${cases.length + unusable.length} done`);
  };
  unusable.forEach(tell);
  let stack: Promise<LocalStack> | undefined;
  const stand = async () => (await (stack ??= openStack())).stand;
  await runCases(cases, stand, tell);
  // A stack that could not be opened has failed the cases that needed it.
  await stack?.then(
    (opened) => opened.close(),
    () => undefined,
  );
  const failed = outcomes.filter(({ problems }) => problems.length > 0).length;
  console.log(`${outcomes.length - failed} passed, ${failed} failed`);
  return failed === 0;
}

async function openStack(): Promise<LocalStack> {
  // Loading it starts the SDK's native runtime, which a folder without ladders does not need.
  const { openLocalStack } = await import('./local-stack.ts');
  return await openLocalStack(process.env, log);
}
