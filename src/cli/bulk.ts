import { setTimeout as sleep } from 'node:timers/promises';
import { createInterface } from 'node:readline/promises';
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { progressInWords } from '../bulk.ts';
import type { BulkHandle, BulkOrder, BulkProgress } from '../client.ts';
import { NoWorker, TemporalUnavailable } from '../errors.ts';
import { causeOf, mustBeKnown, run, type Context } from './context.ts';
import { EXIT } from './exit-codes.ts';
import { wholeNumber } from './options.ts';
import { columns, facts, openProgressBar, type Output } from './output.ts';

/** How a bulk command is given on the command line. */
export interface BulkOptions {
  readonly dryRun?: boolean | undefined;
  readonly yes?: boolean | undefined;
  readonly detach?: boolean | undefined;
  readonly perSecond?: number | undefined;
  readonly by?: string;
  readonly why?: string;
}

const LOOK_EVERY_MS = 500;

/** Gives a bulk command: a dry run first, then a question, unless told otherwise. */
export async function giveBulk(
  { hooks, out }: Context,
  order: BulkOrder,
  options: BulkOptions,
): Promise<number> {
  if ('merchantId' in order.filter) await mustBeKnown(hooks, order.filter.merchantId);
  const settings = {
    ...causeOf(options),
    ...(options.perSecond === undefined ? {} : { perSecond: options.perSecond }),
  };
  if (!options.yes || options.dryRun) {
    const dryRun = await follow(await hooks.bulk({ ...order, ...settings, dryRun: true }), out);
    if (options.dryRun || dryRun.done === 0 || !(await isWanted(dryRun, out))) {
      tell(out, dryRun);
      const asked = options.dryRun || dryRun.done === 0;
      if (!asked) out.note('Nothing was done. --yes does it without a question.');
      return asked ? EXIT.done : EXIT.notDone;
    }
  }
  const command = await hooks.bulk({ ...order, ...settings });
  if (!command.started) out.note(`the same command is under way already; joined ${command.id}`);
  if (options.detach) {
    out.result({ id: command.id, started: command.started }, () => command.id);
    return EXIT.done;
  }
  const underWay = `${command.id} is under way and goes on without this terminal: hookladder bulk show ${command.id}`;
  const progress = await follow(command, out, underWay);
  tell(out, progress);
  return progress.endedAt === undefined ? EXIT.notDone : EXIT.done;
}

/** Commands about bulk commands. */
export function bulkCommand(): CommandUnknownOpts {
  const show = new Command('show')
    .description('how far a bulk command is, who gave it and why')
    .argument('<id>', 'its workflow id, as it was printed')
    .option('--wait', 'wait for the end')
    .action(async (id, options, command) => {
      await run(command, async ({ hooks, out }) => {
        const bulk = hooks.bulkCommand(id);
        tell(out, options.wait ? await follow(bulk, out) : await bulk.progress());
      });
    });
  const stop = new Command('stop')
    .description('stop it between two targets; the same command goes on with the rest')
    .argument('<id>', 'its workflow id, as it was printed')
    .action(async (id, _, command) => {
      await run(command, async ({ hooks, out }) => {
        const bulk = hooks.bulkCommand(id);
        await bulk.stop();
        tell(out, await follow(bulk, out));
      });
    });
  return new Command('bulk')
    .description('look at, or stop, a redelivery, cancellation or reset of many')
    .addCommand(list())
    .addCommand(show)
    .addCommand(stop)
    .addHelpText('after', '\nExample:\n  hookladder bulk show bulk:redeliver:60cb3b60cb1ae2b4');
}

function list() {
  return new Command('list')
    .description('bulk commands, the newest first, each with how far it is')
    .option('--limit <count>', 'at most so many', wholeNumber, 20)
    .action(async ({ limit }, command) => {
      await run(command, async ({ hooks, out }) => {
        const listed = await Array.fromAsync(hooks.bulkCommands({ limit }));
        out.result(listed, () =>
          listed.length === 0
            ? 'none'
            : columns(
                ['BULK COMMAND', 'BEGUN', 'ENDED', 'BY', 'WHAT CAME OF IT'],
                listed.map(({ id, progress }) => [
                  id,
                  progress?.startedAt,
                  progress?.endedAt,
                  progress?.by,
                  progress === undefined ? 'not known: see hookladder bulk show' : progressInWords(progress),
                ]),
              ),
        );
      });
    });
}

/** Shows how it goes on until it ends; a worker, or Temporal, that is away for a while is waited for. */
async function follow(command: BulkHandle, out: Output, underWay?: string): Promise<BulkProgress> {
  const bar = openProgressBar(out);
  const ended = new AbortController();
  const pause = async () =>
    await sleep(LOOK_EVERY_MS, undefined, { signal: ended.signal }).catch(() => undefined);
  const showing = (async () => {
    // Many have ended by then.
    await pause();
    if (!ended.signal.aborted && underWay !== undefined) out.note(underWay);
    while (!ended.signal.aborted) {
      const progress = await command.progress().catch((error: unknown) => {
        if (!(error instanceof NoWorker || error instanceof TemporalUnavailable)) throw error;
      });
      if (ended.signal.aborted) return;
      if (progress === undefined) bar.show(0, 'waits for a worker');
      else if (progress.expected > 0)
        bar.show(progress.seen / Math.max(1, progress.expected), progressInWords(progress));
      await pause();
    }
  })();
  try {
    // The first to fail is told.
    return await Promise.race([command.result(), showing.then(() => command.result())]);
  } finally {
    ended.abort();
    bar.end();
  }
}

async function isWanted(dryRun: BulkProgress, out: Output): Promise<boolean> {
  if (out.json || !process.stdin.isTTY) return false;
  out.note(progressInWords(dryRun));
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question('Do it? [y/N] ');
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

function tell(out: Output, progress: BulkProgress): void {
  const { filter, startedAt, endedAt, by, why, examples, dryRun } = progress;
  const asked = Object.entries(filter).map(([name, value]) => `${name} ${value}`);
  out.result(progress, () =>
    [
      progressInWords(progress),
      facts({
        of: asked.length === 0 ? 'all' : asked.join(', '),
        by,
        why,
        begun: startedAt,
        ended: endedAt,
        'for example': dryRun && examples.length > 0 ? examples.slice(0, 5).join(' ') : undefined,
      }),
    ].join('\n'),
  );
}
