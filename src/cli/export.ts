import { createReadStream, createWriteStream } from 'node:fs';
import { stat, truncate } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Command, Option, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ExportedDelivery } from '../client.ts';
import { END_STATES } from '../filter.ts';
import { given, run } from './context.ts';
import { UsageError } from './exit-codes.ts';
import { filterFlags } from './options.ts';

/** Evidence in a dispute. */
export function exportCommand(): CommandUnknownOpts {
  return new Command('export')
    .description(
      'deliveries that have ended, as JSON lines: ids, times, every attempt’s verdict, interventions',
    )
    .option(...filterFlags.merchant)
    .option('--webhook <id>', 'this webhook of the merchant, all its runs')
    .addOption(new Option('--state <state>', 'that ended so; all by default').choices(END_STATES))
    .option(...filterFlags.type)
    .option(...filterFlags.payment)
    .option(...filterFlags.since)
    .option(...filterFlags.until)
    .option(...filterFlags.endedSince)
    .option(...filterFlags.endedUntil)
    .option('--bodies', 'with the bodies, which may hold personal data; their SHA-256 is there always')
    .option('--output <path>', 'write to this file, which must not exist; standard output by default')
    .option('--resume', 'go on with a file that was broken off: what it has is not read again')
    .addHelpText(
      'after',
      `
A line for each run, the newest first; a redelivery is a run of its own. Any number: they are streamed. What Temporal has
forgotten (the namespace's retention) is not there any more.

Examples:
  hookladder export --merchant shop-1 --webhook pay_1-paid
  hookladder export --payment pay_1
  hookladder export --merchant shop-1 --ended-since 30d --output shop-1.jsonl
  hookladder export --merchant shop-1 --ended-since 30d --output shop-1.jsonl --resume`,
    )
    .action(async ({ bodies = false, output, resume = false, ...options }, command) => {
      if (resume && output === undefined) throw new UsageError('--resume goes on with a file: give --output');
      const { merchant, payment, webhook, ...rest } = options;
      const filter = given({ merchantId: merchant, paymentId: payment, webhookId: webhook, ...rest });
      await run(command, async ({ hooks, out }) => {
        const known = resume && output !== undefined ? await runsIn(output) : new Set<string>();
        let written = 0;
        const lines = async function* () {
          for await (const delivery of hooks.export(filter, { bodies, known })) {
            written += 1;
            yield lineOf(delivery);
          }
        };
        await write(Readable.from(lines()), output, resume);
        const before = known.size === 0 ? '' : `, ${known.size} were there`;
        out.note(`${written} exported${before}`);
      });
    });
}

/** Some readers of lines also end one at these two. */
function lineOf(delivery: ExportedDelivery): string {
  const json = JSON.stringify(delivery).replaceAll('\u2028', String.raw`\u2028`);
  return `${json.replaceAll('\u2029', String.raw`\u2029`)}\n`;
}

async function write(lines: Readable, output: string | undefined, resume: boolean): Promise<void> {
  if (output === undefined) return await pipeline(lines, process.stdout, { end: false });
  const file = createWriteStream(output, { flags: resume ? 'a' : 'wx', mode: 0o600, flush: true });
  await pipeline(lines, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') throw new UsageError(`${output} exists: remove it, or give --resume`);
    if (error.syscall !== undefined) throw new UsageError(`${output} cannot be written (${error.code})`);
    throw error;
  });
}

/** The runs that a file has; a last line that is not whole is cut off. */
async function runsIn(path: string): Promise<Set<string>> {
  const runs = new Set<string>();
  const size = await stat(path).then(
    (file) => file.size,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return 0;
      throw new UsageError(`${path} cannot be read (${error.code ?? error.message})`);
    },
  );
  let whole = 0;
  for await (const line of createInterface({
    input: size === 0 ? Readable.from([]) : createReadStream(path),
  })) {
    const end = whole + Buffer.byteLength(line) + 1;
    if (end > size) break;
    runs.add(runIn(line, path));
    whole = end;
  }
  if (whole < size) await truncate(path, whole);
  return runs;
}

function runIn(line: string, path: string): string {
  try {
    const { runId } = JSON.parse(line) as Partial<ExportedDelivery>;
    if (typeof runId === 'string') return runId;
  } catch {
    // Told below.
  }
  throw new UsageError(`${path} is no export: it has a line that is none`);
}
