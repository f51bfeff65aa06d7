import { parseArgs } from 'node:util';

/** What to measure and where to write it. */
export interface BenchArguments {
  readonly group: string;
  readonly scenarios: readonly string[];
  /** File for the JSON; by default it is the last line of the output. */
  readonly json?: string;
  readonly quick: boolean;
  readonly full: boolean;
}

/** The command line was not understood; the message says what would be. */
export class BenchUsageError extends Error {
  override readonly name = 'BenchUsageError';
  readonly code = 'BENCH_USAGE';
}

/** The group whose scenarios are given by their bare names. */
const USUAL = 'delivery';

/**
 * Reads the command line.
 * @param known - the names of each group's scenarios.
 * @throws {@link BenchUsageError}
 */
export function readArguments(
  args: readonly string[],
  known: Readonly<Record<string, readonly string[]>>,
): BenchArguments {
  const others = Object.keys(known).filter((name) => name !== USUAL);
  const usage = [
    `usage: npm run bench -- [NAME…] [--quick] [--json FILE]   NAME: ${known[USUAL]?.join(', ')}; all by default`,
    `       npm run bench -- ${others.join('|')} [--only NAME,…] [--full] [--json FILE]`,
  ].join('\n');
  const { positionals, values } = parsed(args, usage);
  const { only, json, quick = false, full = false } = values;
  const [first] = positionals;
  const group = first !== undefined && others.includes(first) ? first : USUAL;
  const asked = group === USUAL ? positionals : [...positionals.slice(1), ...(only?.split(',') ?? [])];
  if (group === USUAL ? only !== undefined || full : quick || positionals.length > 1) {
    throw new BenchUsageError(usage);
  }
  const names = known[group] ?? [];
  const unknown = asked.filter((name) => !names.includes(name));
  if (unknown.length > 0) {
    throw new BenchUsageError(
      `there is no scenario "${unknown.join('", "')}"; there are: ${names.join(', ')}\n${usage}`,
    );
  }
  return {
    group,
    scenarios: asked.length === 0 ? names : names.filter((name) => asked.includes(name)),
    quick,
    full,
    ...(json === undefined ? {} : { json }),
  };
}

function parsed(args: readonly string[], usage: string) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        only: { type: 'string' },
        json: { type: 'string' },
        quick: { type: 'boolean' },
        full: { type: 'boolean' },
      },
    });
  } catch (error) {
    throw new BenchUsageError(`${error instanceof Error ? error.message : String(error)}\n${usage}`);
  }
}
