/** Prints "PASSED FAILED" of a JSON report of vitest. */
import { readFile } from 'node:fs/promises';

const [path = ''] = process.argv.slice(2);
const { numPassedTests, numFailedTests, numTotalTests } = JSON.parse(await readFile(path, 'utf8')) as Record<
  string,
  number
>;
if (numPassedTests === undefined || numTotalTests === undefined)
  throw new Error(`${path} is no report of vitest`);
console.log(`${numPassedTests} ${numFailedTests}`);
