import { isDeepStrictEqual } from 'node:util';

/** What came of one case; it passed if there is no problem. */
export interface Outcome {
  readonly file: string;
  readonly name: string;
  /** For a ladder case: the id of the workflow that it ran as, or `pure`. */
  readonly ranAs?: string;
  readonly problems: readonly string[];
}

/** Names each field that differs, with what was expected and what came. */
export function differences<T extends object>(expected: T, got: T, where = ''): string[] {
  const fields = new Set([...Object.keys(expected), ...Object.keys(got)]) as Set<keyof T & string>;
  return [...fields]
    .filter((field) => !isDeepStrictEqual(expected[field], got[field]))
    .map((field) => `${where}${field}: expected ${inJson(expected[field])}, got ${inJson(got[field])}`);
}

/** One line for each case, with a line for each problem. */
export function outcomeInWords({ file, name, ranAs, problems }: Outcome): string {
  const title = `${problems.length === 0 ? 'ok  ' : 'FAIL'} ${file} "${name}"`;
  const as = ranAs === undefined ? '' : ` (${ranAs})`;
  return [title + as, ...problems.map((problem) => `     ${problem}`)].join('\n');
}

function inJson(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value);
}
