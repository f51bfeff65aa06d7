/**
 * `npm run chaos -- [--deliveries N] [--kills N] [--seed N] [--minutes N] [--per-second N] [--json FILE] [--record FILE]`: delivers webhooks
 * while workers and server are killed and connections cut, and judges what became of each. Progress goes to the standard
 * error, the figures to the standard output. Ends with 1 if anything is lost or not explained, with 2 if the command line
 * was not understood.
 */
import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { findTemporalBinary } from '../../src/local/temporal-binary.ts';
import { runChaos } from './chaos.ts';
import { judge } from './oracle.ts';
import { reportOf } from './report.ts';

const DEFAULTS = { deliveries: 2_000, kills: 10, minutes: 30, 'per-second': 10 };
/** After the time of the run: to read what has become of all. */
const JUDGED_WITHIN_MS = 180_000;

function readArguments():
  | (typeof DEFAULTS & { readonly seed: number; readonly json?: string; readonly record?: string })
  | undefined {
  const number = { type: 'string' } as const;
  const options = {
    deliveries: number,
    kills: number,
    minutes: number,
    'per-second': number,
    seed: number,
    json: number,
    record: number,
  };
  try {
    const { json, record, ...given } = parseArgs({ options }).values;
    const seed = Math.floor(Math.random() * 1_000_000);
    const numbers = Object.fromEntries(Object.entries(given).map(([name, text]) => [name, Number(text)]));
    const all = { seed, ...DEFAULTS, ...numbers };
    if (!Object.values(all).every((each) => Number.isFinite(each) && each >= 0)) return undefined;
    return { ...all, ...(json === undefined ? {} : { json }), ...(record === undefined ? {} : { record }) };
  } catch {
    return undefined;
  }
}

async function main(): Promise<number> {
  const given = readArguments();
  if (given === undefined) {
    console.error(
      'usage: npm run chaos -- [--deliveries N] [--kills N] [--seed N] [--minutes N] [--per-second N] [--json FILE] [--record FILE]',
    );
    return 2;
  }
  const { seed, deliveries, kills, minutes, 'per-second': perSecond, json, record: recordFile } = given;
  const beganAt = Date.now();
  const log = (line: string) =>
    console.error(`${((Date.now() - beganAt) / 1_000).toFixed(0).padStart(4)} s  ${line}`);
  console.log(
    `npm run chaos -- --seed ${seed} --deliveries ${deliveries} --kills ${kills} --per-second ${perSecond}`,
  );
  // At an exit the workers go too; a server ends with this process in any case.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
  setTimeout(
    () => {
      console.error('the run did not come to its end');
      process.exit(1);
    },
    minutes * 60_000 + JUDGED_WITHIN_MS,
  ).unref();
  const binary = await findTemporalBinary({ log });
  const record = await runChaos({
    binary: binary.path,
    seed,
    deliveries,
    kills,
    perSecond,
    deadline: beganAt + minutes * 60_000,
    log,
  });
  // All that is judged, so that a finding can be looked into.
  if (recordFile !== undefined) await writeFile(recordFile, JSON.stringify(record));
  const judgement = judge(record);
  const seconds = Math.round((Date.now() - beganAt) / 1_000);
  console.log(reportOf(judgement));
  console.log(`took ${seconds} s`);
  if (json !== undefined) {
    const machine = { cores: cpus().length, node: process.version };
    const { disturbances } = record;
    const at = new Date(beganAt).toISOString();
    const ok = judgement.findings.length === 0;
    await writeFile(
      json,
      `${JSON.stringify({ ok, at, seed, seconds, machine, ...judgement, disturbances }, undefined, 2)}\n`,
    );
  }
  return judgement.findings.length === 0 ? 0 : 1;
}

process.exit(await main());
