import { readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import * as v from 'valibot';
import { problemsOf } from '../../src/contract.ts';
import type { Outcome } from './outcome.ts';

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const text = v.pipe(v.string(), v.nonEmpty());

const moneyCase = v.strictObject({ type: text, status: v.unknown(), money: v.boolean() });

const signatureCase = v.strictObject({
  id: text,
  timestamp: v.pipe(v.string(), v.digits()),
  secret: text,
  bodyBase64: v.pipe(v.string(), v.base64()),
  xWebhookSignature: text,
  webhookSignature: text,
});

const after = {
  t: count,
  state: v.picklist(['closed', 'open', 'half-open']),
  openUntil: v.exactOptional(count),
};
const breakerCase = v.strictObject({
  name: text,
  steps: v.pipe(
    v.array(
      v.variant('do', [
        v.strictObject({ do: v.literal('sample'), failed: v.boolean(), ...after }),
        v.strictObject({ do: v.literal('trial'), failed: v.boolean(), ...after }),
        v.strictObject({ do: v.literal('tick'), ...after }),
        v.strictObject({ do: v.literal('reset'), ...after }),
      ]),
    ),
    v.minLength(1),
  ),
});

const status = v.pipe(v.number(), v.integer(), v.minValue(100), v.maxValue(999));
const scriptedVerdict = v.union([
  v.picklist(['timeout', 'network']),
  status,
  v.strictObject({ status, retryAfter: v.pipe(v.number(), v.integer()) }),
]);
const ladderCase = v.pipe(
  v.strictObject({
    name: text,
    money: v.boolean(),
    verdicts: v.pipe(v.array(scriptedVerdict), v.minLength(1)),
    lastVerdictRepeats: v.boolean(),
    heldBefore: v.exactOptional(count),
    expect: v.strictObject({
      attemptOffsets: v.array(v.number()),
      state: text,
      reason: v.exactOptional(text),
      endOffset: v.number(),
      fastFailures: count,
      slowSteps: count,
    }),
  }),
  v.check(
    ({ lastVerdictRepeats, verdicts, expect }) =>
      lastVerdictRepeats || expect.attemptOffsets.length <= verdicts.length,
    'has fewer verdicts than attempts, and the last one does not repeat',
  ),
);

export type MoneyCase = v.InferOutput<typeof moneyCase>;
export type SignatureCase = v.InferOutput<typeof signatureCase>;
export type BreakerCase = v.InferOutput<typeof breakerCase>;
export type LadderCase = v.InferOutput<typeof ladderCase>;
export type ScriptedVerdict = v.InferOutput<typeof scriptedVerdict>;

/** The verdict of attempt `nth`, counted from 0; `undefined` past the end of a script that does not repeat. */
export function verdictOf(
  { verdicts, lastVerdictRepeats }: LadderCase,
  nth: number,
): ScriptedVerdict | undefined {
  return verdicts[nth] ?? (lastVerdictRepeats ? verdicts.at(-1) : undefined);
}

/** A case that can be run. */
export type VectorCase = { readonly name: string } & (
  | { readonly file: 'money.json'; readonly data: MoneyCase }
  | { readonly file: 'signatures.json'; readonly data: SignatureCase }
  | { readonly file: 'breaker.json'; readonly data: BreakerCase }
  | { readonly file: 'ladders.json'; readonly data: LadderCase }
);

/** What a folder of vectors holds. */
export interface VectorFolder {
  readonly cases: readonly VectorCase[];
  /** What cannot be run: files and cases that are not known or not readable, one failure each. */
  readonly unusable: readonly Outcome[];
}

const parsers = new Map<string, v.GenericSchema<unknown, VectorCase>>([
  [
    'money.json',
    v.pipe(
      moneyCase,
      v.transform((data) => {
        const shown = typeof data.status === 'string' ? data.status : JSON.stringify(data.status);
        return { file: 'money.json', name: `${data.type} ${shown}`, data } as const;
      }),
    ),
  ],
  [
    'signatures.json',
    v.pipe(
      signatureCase,
      v.transform((data) => ({ file: 'signatures.json', name: data.id, data }) as const),
    ),
  ],
  [
    'breaker.json',
    v.pipe(
      breakerCase,
      v.transform((data) => ({ file: 'breaker.json', name: data.name, data }) as const),
    ),
  ],
  [
    'ladders.json',
    v.pipe(
      ladderCase,
      v.transform((data) => ({ file: 'ladders.json', name: data.name, data }) as const),
    ),
  ],
]);

/** Reads every case of a folder; nothing that lies in it is passed over in silence. */
export async function readVectors(folder: string): Promise<VectorFolder> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => error);
  if (names instanceof Error) {
    return unusable(folder, `expected a folder of vectors, but it cannot be read (${names.code})`);
  }
  const files = names.filter((name) => !isOurs(folder, name));
  if (files.length === 0) return unusable(folder, 'expected vectors, got an empty folder');
  const read = await Promise.all(files.sort().map((name) => readFileOfCases(folder, name)));
  return {
    cases: read.flatMap(({ cases }) => cases),
    unusable: read.flatMap((each) => each.unusable),
  };
}

/** The description of the vectors, and the code that lies beside the project's own. */
function isOurs(folder: string, name: string): boolean {
  return name === 'README.md' || (resolve(folder) === import.meta.dirname && name.endsWith('.ts'));
}

async function readFileOfCases(folder: string, name: string): Promise<VectorFolder> {
  const parser = parsers.get(name);
  if (parser === undefined) {
    return unusable(name, `not known: expected one of ${[...parsers.keys()].join(', ')}`);
  }
  let content: unknown;
  try {
    content = JSON.parse(await readFile(join(folder, name), 'utf8'));
  } catch (error) {
    return unusable(name, `cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (!Array.isArray(content)) return unusable(name, 'expected a JSON array of cases');
  if (content.length === 0) return unusable(name, 'expected cases, got an empty array');
  const parsed = content.map((each: unknown, index) => {
    const result = v.safeParse(parser, each);
    if (result.success) return result.output;
    const problems = problemsOf(result.issues).map(({ field, message }) => `${field} ${message}`);
    return { file: name, name: nameOf(each, index), problems };
  });
  return {
    cases: parsed.filter((each) => 'data' in each),
    unusable: parsed.filter((each) => 'problems' in each),
  };
}

function unusable(file: string, problem: string): VectorFolder {
  return { cases: [], unusable: [{ file, name: 'the whole of it', problems: [problem] }] };
}

function nameOf(data: unknown, index: number): string {
  const numbered = `case ${index + 1}`;
  if (typeof data !== 'object' || data === null) return numbered;
  if ('name' in data && typeof data.name === 'string') return data.name;
  return 'id' in data && typeof data.id === 'string' ? data.id : numbered;
}
