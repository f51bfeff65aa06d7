import { Command, Option, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type {
  DeliveryFilter,
  DeliveryHandle,
  DeliveryStatus,
  FilterState,
  Hookladder,
  ListedDelivery,
  RedeliverOutcome,
} from '../client.ts';
import { DeliveryNotFound, InvalidWebhook } from '../errors.ts';
import { hasState } from '../filter.ts';
import { giveBulk } from './bulk.ts';
import { causeOf, given, mustBeKnown, readInput, run } from './context.ts';
import { EXIT, UsageError } from './exit-codes.ts';
import { byFlag, filterFlags, positive, stateOption, whyFlag, wholeNumber } from './options.ts';
import type { Output } from './output.ts';
import { countsByMerchant, countsTable, listTable, statusTable, tryNowInWords } from './words.ts';

/** Commands about single deliveries, and the lists of them. */
export function deliveryCommands(): CommandUnknownOpts[] {
  return [deliver(), statusOf(), list(), payment(), redeliver(), cancel(), tryNow()];
}

function deliver() {
  return new Command('deliver')
    .description('hand over a webhook')
    .argument('<merchant>', 'merchant id')
    .argument('<type>', 'event type, such as payment.status_changed')
    .option('--body <json>', 'the exact JSON to send')
    .option('--body-file <path>', 'read it from a file, or from standard input (-)')
    .option('--id <webhook>', 'webhook id; the same command again then starts nothing. A new one by default')
    .option('--payment <id>', 'the payment it belongs to')
    .option('--wait', 'wait for the end; exit code 6 unless it is delivered')
    .addHelpText(
      'after',
      `
Examples:
  hookladder deliver shop-1 payment.status_changed --body '{"status":"paid"}' --id pay_1-paid --payment pay_1
  hookladder deliver shop-1 kyc.status_changed --body-file event.json --wait`,
    )
    .action(async (merchantId, type, options, command) => {
      await run(command, async ({ hooks, out }) => {
        const accepted = await hooks.deliver({
          merchantId,
          type,
          body: await bodyOf(options),
          ...(options.id === undefined ? {} : { webhookId: options.id }),
          ...(options.payment === undefined ? {} : { paymentId: options.payment }),
        });
        const { webhookId, started, existing, delivery } = accepted;
        const known = { merchantId, webhookId, started, ...(existing === undefined ? {} : { existing }) };
        if (options.wait) return await untilEnd(delivery, out, known);
        out.result(known, () =>
          started
            ? `accepted: hookladder status ${merchantId} ${webhookId}`
            : `known already, and ${existing}: hookladder status ${merchantId} ${webhookId}`,
        );
      });
    });
}

function statusOf() {
  return new Command('status')
    .description('where a webhook is: what it waits for, until when, after which answer')
    .argument('<merchant>', 'merchant id')
    .argument('<webhook>', 'webhook id')
    .option('--wait', 'wait for the end first; exit code 6 unless it is delivered')
    .addHelpText('after', '\nExample:\n  hookladder status shop-1 pay_1-paid')
    .action(async (merchantId, webhookId, options, command) => {
      await run(command, async ({ hooks, out }) => {
        const delivery = hooks.delivery(merchantId, webhookId);
        return await orSwapped(hooks, delivery, async () => {
          if (options.wait) return await untilEnd(delivery, out, {});
          show(out, delivery, await delivery.status());
          return EXIT.done;
        });
      });
    });
}

function list() {
  return new Command('list')
    .description('deliveries, the newest first, each with its state of now')
    .option(...filterFlags.merchant)
    .addOption(stateOption)
    .option(...filterFlags.type)
    .option(...filterFlags.payment)
    .option(...filterFlags.since)
    .option(...filterFlags.until)
    .option(...filterFlags.endedSince)
    .option(...filterFlags.endedUntil)
    .option('--all-runs', 'with an end state: also those that ended so and were started anew since')
    .addOption(new Option('--count-by <what>', 'how many, instead of which').choices(['merchant']))
    .option('--limit <count>', 'at most so many, 100 by default; all with --count-by', wholeNumber)
    .addHelpText(
      'after',
      `
Examples:
  hookladder list --state held
  hookladder list --merchant shop-1 --state failed --ended-since 24h --json
  hookladder list --state failed --ended-since 24h --count-by merchant`,
    )
    .action(async ({ limit, allRuns = false, countBy, ...options }, command) => {
      await run(command, async ({ hooks, out }) => {
        const filter = filterOf(options);
        const most = limit ?? (countBy === undefined ? 100 : Number.POSITIVE_INFINITY);
        const { listed, anew } = await lookThrough(
          hooks.list(filter, { ...ALL, allRuns: true }),
          filter,
          most,
          allRuns,
        );
        if (listed.length === 0 && anew.length === 0) await mustBeKnown(hooks, filter.merchantId);
        if (countBy === undefined) {
          out.result(listed, () => (listed.length === 0 ? 'no delivery' : listTable(listed)));
        } else {
          const counts = countsByMerchant(listed, anew);
          out.result(counts, () => (counts.length === 0 ? 'no delivery' : countsTable(counts, filter.state)));
        }
        if (listed.length === most) out.note(`${most} shown; there may be more: --limit`);
        if (anew.length > 0 && countBy === undefined) {
          out.note(`${anew.length} more ended as ${filter.state} and were started anew since: --all-runs`);
        }
      });
    });
}

const ALL = { limit: Number.POSITIVE_INFINITY };

/** Those that are asked for, and those that only an earlier run makes so. */
async function lookThrough(
  found: AsyncIterable<ListedDelivery>,
  filter: DeliveryFilter,
  most: number,
  allRuns: boolean,
): Promise<{ readonly listed: readonly ListedDelivery[]; readonly anew: readonly ListedDelivery[] }> {
  const listed: ListedDelivery[] = [];
  const anew: ListedDelivery[] = [];
  for await (const each of found) {
    if (allRuns || hasState(filter, each.state)) listed.push(each);
    else anew.push(each);
    if (listed.length === most) break;
  }
  return { listed, anew };
}

function payment() {
  return new Command('payment')
    .description('all webhooks of a payment')
    .argument('<payment>', 'payment id')
    .addHelpText('after', '\nExample:\n  hookladder payment pay_1')
    .action(async (paymentId, _, command) => {
      await run(command, async ({ hooks, out }) => {
        const listed = await hooks.payment(paymentId).deliveries();
        out.result(listed, () =>
          listed.length === 0
            ? `nothing is known of payment ${paymentId}: check the id; what was accepted a moment ago may be missing`
            : listTable(listed),
        );
      });
    });
}

function redeliver() {
  return new Command('redeliver')
    .description('deliver again: one webhook, or all that failed of a filter')
    .argument('[merchant]', 'merchant id')
    .argument('[webhook]', 'webhook id')
    .option('--force', 'also one that was delivered or cancelled: the merchant gets it again')
    .option('--wait', 'wait for the end; exit code 6 unless it is delivered')
    .option('--all', 'all that FAILED and that the options below ask for')
    .option(...filterFlags.merchant)
    .option(...filterFlags.type)
    .option(...filterFlags.payment)
    .option(...filterFlags.since)
    .option(...filterFlags.until)
    .option(...filterFlags.endedSince)
    .option(...filterFlags.endedUntil)
    .option('--dry-run', 'with --all: only count')
    .option('--yes', 'with --all: without a dry run and a question first')
    .option('--per-second <count>', 'with --all: pace, 25 by default, 50 at most', positive)
    .option('--detach', 'with --all: do not wait for the end')
    .option(...byFlag)
    .option(...whyFlag)
    .addHelpText(
      'after',
      `
A webhook that FAILED begins anew with the same id and body; one that is open is told to try now.
All of a filter are redelivered by a workflow of its own: it goes on when this command ends. The same command joins it.

Examples:
  hookladder redeliver shop-1 pay_1-paid --why 'their deploy is fixed'
  hookladder redeliver --all --merchant shop-1 --ended-since 24h
  hookladder redeliver --all --type payment.status_changed --yes --per-second 10`,
    )
    .action(async (merchantId, webhookId, options, command) => {
      await run(command, async ({ hooks, out }) => {
        if (options.all) {
          noIds(merchantId, webhookId);
          return await giveBulk({ hooks, out }, { command: 'redeliver', filter: filterOf(options) }, options);
        }
        const delivery = hooks.delivery(...bothIds(merchantId, webhookId));
        const outcome = await delivery.redeliver({ force: options.force ?? false, ...causeOf(options) });
        const [exitCode, words] = redeliveredInWords(outcome);
        if (options.wait && exitCode === EXIT.done) return await untilEnd(delivery, out, outcome);
        out.result(outcome, () => words);
        return exitCode;
      });
    });
}

function cancel() {
  return new Command('cancel')
    .description('give up: one webhook, or all that are open of a filter; a POST in flight is let finish')
    .argument('[merchant]', 'merchant id')
    .argument('[webhook]', 'webhook id')
    .option('--all', 'all that are open and that the options below ask for')
    .option(...filterFlags.merchant)
    .addOption(stateOption)
    .option(...filterFlags.type)
    .option(...filterFlags.payment)
    .option(...filterFlags.since)
    .option(...filterFlags.until)
    .option('--dry-run', 'with --all: only count')
    .option('--yes', 'with --all: without a dry run and a question first')
    .option('--per-second <count>', 'with --all: pace, 25 by default, 50 at most', positive)
    .option('--detach', 'with --all: do not wait for the end')
    .option(...byFlag)
    .option(...whyFlag)
    .addHelpText(
      'after',
      `
Examples:
  hookladder cancel shop-1 pay_1-paid --why 'sent by mistake'
  hookladder cancel --all --merchant shop-1 --state held-no-endpoint`,
    )
    .action(async (merchantId, webhookId, options, command) => {
      await run(command, async ({ hooks, out }) => {
        if (options.all) {
          noIds(merchantId, webhookId);
          return await giveBulk({ hooks, out }, { command: 'cancel', filter: filterOf(options) }, options);
        }
        const delivery = hooks.delivery(...bothIds(merchantId, webhookId));
        await delivery.cancel(causeOf(options));
        const ended = await delivery.result();
        show(out, delivery, ended);
        return ended.state === 'cancelled' ? EXIT.done : EXIT.notDone;
      });
    });
}

function tryNow() {
  return new Command('try-now')
    .description('end the pause of a ladder now; never passes a breaker that holds')
    .argument('<merchant>', 'merchant id')
    .argument('<webhook>', 'webhook id')
    .option(...byFlag)
    .option(...whyFlag)
    .addHelpText(
      'after',
      "\nExample:\n  hookladder try-now shop-1 pay_1-paid --why 'they say it works again'",
    )
    .action(async (merchantId, webhookId, options, command) => {
      await run(command, async ({ hooks, out }) => {
        const outcome = await hooks.delivery(merchantId, webhookId).tryNow(causeOf(options));
        const [exitCode, words] = tryNowInWords(outcome);
        out.result(outcome, () => words);
        return exitCode;
      });
    });
}

interface FilterOptions {
  readonly merchant?: string;
  readonly state?: FilterState;
  readonly type?: string;
  readonly payment?: string;
  readonly since?: string;
  readonly until?: string;
  readonly endedSince?: string;
  readonly endedUntil?: string;
}

function filterOf(options: FilterOptions): DeliveryFilter {
  const { merchant, payment: paymentId, state, type, since, until, endedSince, endedUntil } = options;
  return given({ merchantId: merchant, paymentId, state, type, since, until, endedSince, endedUntil });
}

async function bodyOf(options: { readonly body?: string; readonly bodyFile?: string }): Promise<string> {
  if ((options.body === undefined) === (options.bodyFile === undefined)) {
    throw new UsageError('give the body by --body or by --body-file, and only one of them');
  }
  return options.body ?? (await readInput(options.bodyFile ?? '-'));
}

function bothIds(merchantId: string | undefined, webhookId: string | undefined): [string, string] {
  if (merchantId === undefined || webhookId === undefined) {
    throw new UsageError('give a merchant id and a webhook id, or --all with a filter');
  }
  return [merchantId, webhookId];
}

function noIds(merchantId: string | undefined, webhookId: string | undefined): void {
  if (merchantId !== undefined || webhookId !== undefined) {
    throw new UsageError('--all takes a filter instead of ids: --merchant, --type, --payment, --since, …');
  }
}

function redeliveredInWords(outcome: RedeliverOutcome): [number, string] {
  switch (outcome.outcome) {
    case 'started':
      return [EXIT.done, 'started anew, with the same id and body'];
    case 'open': {
      const [exitCode, words] = tryNowInWords(outcome.tryNow);
      return [exitCode, `it is open, so it was told to try now: ${words}`];
    }
    case 'needs-force':
      return [
        EXIT.notDone,
        `nothing was done: it was ${outcome.existing}; --force delivers it all the same${outcome.existing === 'delivered' ? ', and the merchant gets it again' : ''}`,
      ];
  }
}

/** Two ids in the wrong order are a common slip. */
async function orSwapped<T>(
  hooks: Hookladder,
  { merchantId, webhookId }: DeliveryHandle,
  ask: () => Promise<T>,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof DeliveryNotFound) || !(await isThere(hooks, webhookId, merchantId))) throw error;
    const remedy = `it is there with the ids the other way round: hookladder status ${webhookId} ${merchantId}`;
    throw new DeliveryNotFound(merchantId, webhookId, remedy);
  }
}

async function isThere(hooks: Hookladder, merchantId: string, webhookId: string): Promise<boolean> {
  try {
    await hooks.delivery(merchantId, webhookId).status();
    return true;
  } catch (error) {
    if (error instanceof DeliveryNotFound || error instanceof InvalidWebhook) return false;
    throw error;
  }
}

async function untilEnd(delivery: DeliveryHandle, out: Output, before: object): Promise<number> {
  const ended = await delivery.result();
  out.result({ ...before, ...ended }, () => statusTable(ended, delivery.workflowId));
  return ended.state === 'delivered' ? EXIT.done : EXIT.notDone;
}

function show(out: Output, delivery: DeliveryHandle, status: DeliveryStatus): void {
  out.result(status, () => statusTable(status, delivery.workflowId));
}
