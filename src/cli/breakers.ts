import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ListedMerchant } from '../client.ts';
import { giveBulk } from './bulk.ts';
import { causeOf, given, run } from './context.ts';
import { UsageError } from './exit-codes.ts';
import { merchantStatus, merchantTable } from './merchants.ts';
import { byFlag, positive, whyFlag } from './options.ts';
import { columns } from './output.ts';
import { timeOf } from './words.ts';

/** Commands about breakers. */
export function breakerCommand(): CommandUnknownOpts {
  return new Command('breaker')
    .description('breakers of merchants')
    .addCommand(show())
    .addCommand(reset())
    .addCommand(list());
}

function show() {
  return new Command('show')
    .description('the breaker of a merchant: state, window, who changed what')
    .argument('<merchant>', 'merchant id')
    .addHelpText('after', '\nExample:\n  hookladder breaker show shop-1')
    .action(async (merchantId, _, command) => {
      await run(command, async (context) => {
        const status = await merchantStatus(context, merchantId);
        context.out.result(status, () => merchantTable(status));
      });
    });
}

function reset() {
  return new Command('reset')
    .description('close a breaker, whatever it has seen; or all that opened since a time')
    .argument('[merchant]', 'merchant id')
    .option('--opened-since <time>', 'all that opened at or after: RFC 3339, or how long ago, such as 30m')
    .option('--dry-run', 'with --opened-since: only count')
    .option('--yes', 'with --opened-since: without a dry run and a question first')
    .option('--per-second <count>', 'with --opened-since: pace, 25 by default, 50 at most', positive)
    .option('--detach', 'with --opened-since: do not wait for the end')
    .option(...byFlag)
    .option(...whyFlag)
    .addHelpText(
      'after',
      `
Whether the endpoint is up again tells \`hookladder merchant test\`: it closes nothing and spends nothing.

Examples:
  hookladder merchant test shop-1
  hookladder breaker reset shop-1 --why 'their deploy is fixed'
  hookladder breaker reset --opened-since 2h --why 'our own network was down'`,
    )
    .action(async (merchantId, { openedSince, ...options }, command) => {
      if ((merchantId === undefined) === (openedSince === undefined)) {
        return await run(command, async () => {
          throw new UsageError('give a merchant id or --opened-since, and only one of them');
        });
      }
      await run(command, async (context) => {
        if (merchantId === undefined) {
          const filter = given({ openedSince });
          return await giveBulk(context, { command: 'reset-breakers', filter }, options);
        }
        const change = await context.hooks.merchant(merchantId).resetBreaker(causeOf(options));
        context.out.result(change, () =>
          change.applied
            ? 'closed; the held deliveries go'
            : 'accepted: it takes effect as soon as a worker runs',
        );
        context.out.note(`it opens again if they still fail: hookladder merchant test ${merchantId} tells`);
      });
    });
}

function list() {
  return new Command('list')
    .description('merchants whose breaker is not closed, or that are paused')
    .option('--all', 'all merchants that something is known of')
    .addHelpText('after', '\nExample:\n  hookladder breaker list')
    .action(async (options, command) => {
      await run(command, async ({ hooks, out }) => {
        const merchants = await Array.fromAsync(hooks.merchants({ notClosed: !options.all }));
        out.result(merchants, () => (merchants.length === 0 ? 'none' : merchantsTable(merchants)));
      });
    });
}

function merchantsTable(merchants: readonly ListedMerchant[]): string {
  return columns(
    ['MERCHANT', 'BREAKER', 'OPENED', 'UNTIL', 'PAUSED', 'ENDPOINT'],
    merchants.map(({ merchantId, gate: { circuit, openedAt, paused, endpoint } }) => [
      merchantId,
      circuit.state,
      timeOf(openedAt),
      circuit.state === 'open' ? timeOf(circuit.until) : '',
      paused === undefined ? '' : `by ${paused.by ?? 'somebody'}`,
      endpoint?.url ?? 'none',
    ]),
  );
}
