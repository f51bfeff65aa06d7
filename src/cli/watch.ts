import { setTimeout as sleep } from 'node:timers/promises';
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { createLogUpdate } from 'log-update';
import type { ListedDelivery, MerchantStatus } from '../client.ts';
import { run, type Context } from './context.ts';
import { EXIT } from './exit-codes.ts';
import { merchantStatus, merchantTable } from './merchants.ts';
import { positive } from './options.ts';
import { paint, type Output } from './output.ts';
import { listTable } from './words.ts';

const LATEST = 8;
const TRANSITIONS = 5;

/** A merchant at one moment. */
interface View {
  readonly at: string;
  readonly merchant: MerchantStatus;
  /** In the last minute, as far as visibility knows. */
  readonly lastMinute: { readonly accepted: number; readonly delivered: number; readonly failed: number };
  readonly latest: readonly ListedDelivery[];
}

/** A live view of a merchant. */
export function watchCommand(): CommandUnknownOpts {
  return new Command('watch')
    .description('a live view of a merchant: breaker, held deliveries, rates, latest webhooks and answers')
    .argument('<merchant>', 'merchant id')
    .option('--interval <seconds>', 'how often it looks', positive, 2)
    .option('--once', 'look once')
    .addHelpText(
      'after',
      '\nExamples:\n  hookladder watch shop-1\n  hookladder watch shop-1 --json | jq .merchant.held',
    )
    .action(async (merchantId, { interval, once }, command) => {
      await run(command, async (context) => {
        const screen = openScreen(context.out);
        const stop = new AbortController();
        const end = (): void => stop.abort();
        process.once('SIGINT', end);
        process.once('SIGTERM', end);
        while (!stop.signal.aborted) {
          screen.show(await look(context, merchantId));
          if (once) break;
          await sleep(interval * 1_000, undefined, { signal: stop.signal }).catch(() => undefined);
        }
        screen.end();
        return EXIT.done;
      });
    });
}

async function look(context: Context, merchantId: string): Promise<View> {
  const { hooks } = context;
  const merchant = await merchantStatus(context, merchantId);
  const [accepted, delivered, failed, latest] = await Promise.all([
    hooks.count({ merchantId, since: '1m' }),
    hooks.count({ merchantId, state: 'delivered', endedSince: '1m' }),
    hooks.count({ merchantId, state: 'failed', endedSince: '1m' }),
    Array.fromAsync(hooks.list({ merchantId }, { limit: LATEST })),
  ]);
  const lastMinute = { accepted, delivered, failed };
  return { at: new Date().toISOString(), merchant, lastMinute, latest };
}

/** On a terminal the view is drawn over and over; elsewhere each is written, with `--json` a line of it. */
function openScreen(out: Output): { show(view: View): void; end(): void } {
  if (out.json) {
    return { show: (view) => void process.stdout.write(`${JSON.stringify(view)}\n`), end: () => undefined };
  }
  if (!process.stdout.isTTY) {
    return { show: (view) => void process.stdout.write(`${inWords(view)}\n\n`), end: () => undefined };
  }
  const live = createLogUpdate(process.stdout);
  return { show: (view) => live(inWords(view)), end: () => live.done() };
}

function inWords({ at, merchant, lastMinute, latest }: View): string {
  const { accepted, delivered, failed } = lastMinute;
  const newest = { ...merchant, transitions: merchant.transitions.slice(-TRANSITIONS) };
  return [
    merchantTable(newest),
    '',
    `${paint('dim', 'last minute')}  ${accepted} accepted, ${delivered} delivered, ${failed} failed`,
    '',
    latest.length === 0 ? 'no delivery yet' : listTable(latest),
    '',
    paint('dim', `at ${at}`),
  ].join('\n');
}
