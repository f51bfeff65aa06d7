import { parseArgs } from 'node:util';

/** What to measure and where to write it. */
export interface BenchArguments {
  readonly group: string;
  /** Names of scenarios; all by default. */
  readonly only: readonly string[];
  /** File for the JSON; by default it is the last line of the output. */
  readonly json?: string;
  readonly full: boolean;
}

/** The command line was not understood; the message says what would be. */
export class BenchUsageError extends Error {
  override readonly name = 'BenchUsageError';
  readonly code = 'BENCH_USAGE';
}

/**
 * Reads the command line.
 * @param known - the names of each group's scenarios.
 * @throws {@link BenchUsageError}
 */
export function readArguments(
  args: readonly string[],
  known: Readonly<Record<string, readonly string[]>>,
): BenchArguments {
  const usage = `usage: npm run bench -- ${Object.keys(known).join('|')} [--only NAME,…] [--json FILE] [--full]`;
  const { positionals, values } = parsed(args, usage);
  const [group, ...more] = positionals;
  if (group === undefined || more.length > 0) throw new BenchUsageError(usage);
  const names = Object.hasOwn(known, group) ? known[group] : undefined;
  if (names === undefined) throw new BenchUsageError(`there is no benchmark "${group}"; ${usage}`);
  const only = values.only?.split(',') ?? names;
  const unknown = only.filter((name) => !names.includes(name));
  if (unknown.length > 0) {
    throw new BenchUsageError(
      `there is no scenario "${unknown.join('", "')}"; there are: ${names.join(', ')}`,
    );
  }
  const { json, full = false } = values;
  return {
    group,
    only: names.filter((name) => only.includes(name)),
    full,
    ...(json === undefined ? {} : { json }),
  };
}

function parsed(args: readonly string[], usage: string) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { only: { type: 'string' }, json: { type: 'string' }, full: { type: 'boolean' } },
    });
  } catch (error) {
    throw new BenchUsageError(`${error instanceof Error ? error.message : String(error)}\n${usage}`);
  }
}
