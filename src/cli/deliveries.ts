import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type {
  DeliveryFilter,
  DeliveryHandle,
  DeliveryStatus,
  FilterState,
  RedeliverOutcome,
} from '../client.ts';
import { giveBulk } from './bulk.ts';
import { causeOf, given, readInput, run } from './context.ts';
import { EXIT, UsageError } from './exit-codes.ts';
import { byFlag, filterFlags, positive, stateOption, whyFlag, wholeNumber } from './options.ts';
import type { Output } from './output.ts';
import { listTable, statusTable, tryNowInWords } from './words.ts';

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
        if (options.wait) return await untilEnd(delivery, out, {});
        show(out, delivery, await delivery.status());
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
    .option('--limit <count>', 'at most so many', wholeNumber, 100)
    .addHelpText(
      'after',
      `
Examples:
  hookladder list --state held
  hookladder list --merchant shop-1 --state failed --ended-since 24h --json`,
    )
    .action(async ({ limit, ...options }, command) => {
      await run(command, async ({ hooks, out }) => {
        const listed = await Array.fromAsync(hooks.list(filterOf(options), { limit }));
        out.result(listed, () => (listed.length === 0 ? 'no delivery' : listTable(listed)));
        if (listed.length === limit) out.note(`${limit} shown; there may be more: --limit`);
      });
    });
}

function payment() {
  return new Command('payment')
    .description('all webhooks of a payment')
    .argument('<payment>', 'payment id')
    .addHelpText('after', '\nExample:\n  hookladder payment pay_1')
    .action(async (paymentId, _, command) => {
      await run(command, async ({ hooks, out }) => {
        const listed = await hooks.payment(paymentId).deliveries();
        out.result(listed, () => (listed.length === 0 ? 'no webhook of this payment' : listTable(listed)));
      });
    });
}

function redeliver() {
  return new Command('redeliver')
    .description('deliver again: one webhook, or all that failed of a filter')
    .argument('[merchant]', 'merchant id')
    .argument('[webhook]', 'webhook id')
    .option('--force', 'also one that was delivered or cancelled')
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
      return [EXIT.notDone, `nothing was done: it was ${outcome.existing}; --force delivers it again`];
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
