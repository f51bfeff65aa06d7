/**
 * `npm run bench -- [NAME…] [--quick] [--json FILE]` and `npm run bench -- breaker [--only NAME,…] [--full] [--json FILE]`:
 * measures, and compares with the goals.
 * Progress goes to the standard error, a table and then one line of JSON to the standard output. Ends with 1
 * if a goal is missed or could not be measured, with 2 if the command line was not understood.
 */
import { cpus } from 'node:os';
import { writeFile } from 'node:fs/promises';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { BenchUsageError, readArguments } from './arguments.ts';
import { breakerScenarios } from './breaker/scenarios.ts';
import { deliveryScenarios } from './delivery/scenarios.ts';
import { judged, tableOf, type JudgedFigure } from './figures.ts';
import { Unsteady } from './delivery/rounds.ts';
import type { Scenarios } from './scenario.ts';

const groups: Readonly<Record<string, Scenarios>> = {
  delivery: deliveryScenarios,
  breaker: breakerScenarios,
};

async function main(): Promise<number> {
  const known = Object.fromEntries(Object.entries(groups).map(([name, each]) => [name, Object.keys(each)]));
  const { group, scenarios, json, quick, full } = readArguments(process.argv.slice(2), known);
  Runtime.install({
    logger: new DefaultLogger('ERROR'),
    telemetryOptions: { logging: { forward: { level: 'ERROR' } } },
  });
  const figures: JudgedFigure[] = [];
  const broken: string[] = [];
  for (const name of scenarios) {
    const log = (line: string) => console.error(`${name}: ${line}`);
    for (const part of [groups[group]?.[name] ?? []].flat()) {
      try {
        for (const figure of await part({ quick, full, log })) figures.push(judged(name, figure));
      } catch (error) {
        // What the others have measured must not be lost.
        console.error(`${name}: could not be measured:`, error instanceof Unsteady ? error.message : error);
        broken.push(name);
      }
    }
  }
  const ok = broken.length === 0 && figures.every(({ holds }) => holds !== false);
  const machine = { cores: cpus().length, node: process.version };
  const text = JSON.stringify({
    group,
    quick,
    full,
    ok,
    at: new Date().toISOString(),
    machine,
    broken,
    figures,
  });
  console.log(tableOf(figures));
  if (json === undefined) console.log(text);
  else await writeFile(json, `${text}\n`);
  return ok ? 0 : 1;
}

try {
  // A reporter goes on trying to send for as long as its process lives.
  process.exit(await main());
} catch (error) {
  console.error(error instanceof BenchUsageError ? error.message : error);
  process.exit(error instanceof BenchUsageError ? 2 : 1);
}
