import { writeFile } from 'node:fs/promises';
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Change, ExportedEndpoint, MerchantStatus } from '../client.ts';
import { HookladderError, MerchantNotFound } from '../errors.ts';
import { verdictInWords } from '../policy/verdicts.ts';
import { SecretKeyError } from '../secrets.ts';
import { causeOf, given, headersOf, readInput, run, type Context } from './context.ts';
import { EXIT, UsageError } from './exit-codes.ts';
import { byFlag, whyFlag } from './options.ts';
import { facts, paint, type Output } from './output.ts';
import { timeOf } from './words.ts';

const SECRET_HELP =
  'the signing secret; other users of this machine can see it in the list of processes: prefer --secret-file';
const SECRET_FILE_HELP = 'read the signing secret from a file, or from standard input (-)';

/** Commands about a merchant's endpoint. */
export function merchantCommand(): CommandUnknownOpts {
  return new Command('merchant')
    .description('endpoints of merchants')
    .addCommand(set())
    .addCommand(show())
    .addCommand(rotateSecret())
    .addCommand(simple('promote-secret', 'end a rotation: the new secret is the only one', 'promoteSecret'))
    .addCommand(simple('pause', 'hold all deliveries until it is resumed', 'pause'))
    .addCommand(
      simple('resume', 'end a pause; the held deliveries go, unless the breaker holds them', 'resume'),
    )
    .addCommand(
      simple('unset', 'take the endpoint away; deliveries are held until one is set', 'removeEndpoint'),
    )
    .addCommand(test())
    .addCommand(exportEndpoints())
    .addCommand(importEndpoints());
}

function set() {
  return new Command('set')
    .description('set where a merchant receives webhooks; without a secret, only the address changes')
    .argument('<merchant>', 'merchant id')
    .requiredOption('--url <url>', 'an absolute https URL')
    .option('--secret <secret>', SECRET_HELP)
    .option('--secret-file <path>', SECRET_FILE_HELP)
    .option(
      '--headers-file <path>',
      'custom headers, a JSON object of names and values; or standard input (-); needed again with another address',
    )
    .option('--allow-http', 'take a plain http URL; never in production')
    .option(...byFlag)
    .option(...whyFlag)
    .addHelpText(
      'after',
      `
With a secret it takes the place of all that was set before. Without one, secrets stay as they are, a rotation under way
included, and so do headers while the address is the same.

Examples:
  hookladder merchant set shop-1 --url https://shop.example/webhooks --secret-file secret.txt
  hookladder merchant set shop-1 --url https://new.shop.example/webhooks --why 'they moved'
  pass show shop-1 | hookladder merchant set shop-1 --url https://shop.example/webhooks --secret-file -`,
    )
    .action(async (merchantId, options, command) => {
      await run(
        command,
        async ({ hooks, out }) => {
          const { url } = options;
          const cause = causeOf(options);
          const isMove = options.secret === undefined && options.secretFile === undefined;
          const secret = isMove ? undefined : await secretOf(options);
          const headers = given({ headers: await headersOf(options.headersFile) });
          const merchant = hooks.merchant(merchantId);
          const change =
            secret === undefined
              ? await merchant.setUrl(url, { ...headers, ...cause })
              : await merchant.setEndpoint({ url, secret, ...headers }, cause);
          if (change.warning !== undefined) out.note(`warning: ${change.warning}`);
          changed(out, change);
        },
        options,
      );
    });
}

function show() {
  return new Command('show')
    .description('how a merchant stands: endpoint, breaker, held deliveries, who changed what')
    .argument('<merchant>', 'merchant id')
    .addHelpText('after', '\nExample:\n  hookladder merchant show shop-1')
    .action(async (merchantId, _, command) => {
      await run(command, async (context) => {
        const status = await merchantStatus(context, merchantId);
        context.out.result(status, () => merchantTable(status));
      });
    });
}

function rotateSecret() {
  return new Command('rotate-secret')
    .description('replace the signing secret while receivers change over; both sign until it is promoted')
    .argument('<merchant>', 'merchant id')
    .option('--secret <secret>', SECRET_HELP)
    .option('--secret-file <path>', SECRET_FILE_HELP)
    .option(
      '--keep-old-for <time>',
      "how long the old one stays the first, such as '7 days'; 0 drops it at once",
      '24 hours',
    )
    .option(...byFlag)
    .option(...whyFlag)
    .addHelpText(
      'after',
      "\nExample:\n  hookladder merchant rotate-secret shop-1 --secret-file new.txt --keep-old-for '7 days'",
    )
    .action(async (merchantId, options, command) => {
      await run(command, async ({ hooks, out }) => {
        const secret = await secretOf(options);
        const keepOldFor = options.keepOldFor === '0' ? 0 : options.keepOldFor;
        const rotation = { keepOldFor: keepOldFor as '24 hours', ...causeOf(options) };
        changed(out, await hooks.merchant(merchantId).rotateSecret(secret, rotation));
      });
    });
}

function simple(
  name: string,
  description: string,
  method: 'promoteSecret' | 'pause' | 'resume' | 'removeEndpoint',
) {
  return new Command(name)
    .description(description)
    .argument('<merchant>', 'merchant id')
    .option(...byFlag)
    .option(...whyFlag)
    .addHelpText('after', `\nExample:\n  hookladder merchant ${name} shop-1 --why 'they asked for it'`)
    .action(async (merchantId, options, command) => {
      await run(command, async ({ hooks, out }) => {
        const change = await hooks.merchant(merchantId)[method](causeOf(options));
        changed(out, change, outcomes[method]);
      });
    });
}

function test() {
  return new Command('test')
    .description('send one signed test event; exit code 6 unless it is answered 2xx')
    .argument('<merchant>', 'merchant id')
    .addHelpText(
      'after',
      `
The event has the type hookladder.test. A worker sends it with the secrets and headers of the endpoint, also while the
breaker is open or the merchant is paused. It is no sample of the breaker, no delivery, and is sent once.

Example:
  hookladder merchant test shop-1`,
    )
    .action(async (merchantId, _, command) => {
      await run(command, async ({ hooks, out }) => {
        const { webhookId, verdict } = await hooks.merchant(merchantId).sendTest();
        out.result({ merchantId, webhookId, verdict }, () =>
          [
            `${verdict.kind === 'delivered' ? paint('green', 'it works') : paint('red', 'it does not work')}: ${verdictInWords(verdict)}`,
            facts({
              webhook: webhookId,
              'answered after': `${verdict.durationMs} ms`,
              'it said': 'excerpt' in verdict ? verdict.excerpt : undefined,
            }),
          ].join('\n'),
        );
        return verdict.kind === 'delivered' ? EXIT.done : EXIT.notDone;
      });
    });
}

const FORMAT = 'hookladder-endpoints.v1';

function exportEndpoints() {
  return new Command('export')
    .description('endpoints as JSON, their secrets sealed: they open only with the keys that sealed them')
    .argument('[merchants...]', 'merchant ids; all by default')
    .option('--output <path>', 'write to a file instead of standard output')
    .addHelpText('after', '\nExample:\n  hookladder merchant export --output endpoints.json')
    .action(async (merchantIds, options, command) => {
      await run(command, async ({ hooks, out }) => {
        const endpoints: ExportedEndpoint[] = [];
        for (const merchantId of merchantIds.length > 0 ? merchantIds : await withEndpoint({ hooks, out })) {
          endpoints.push(await hooks.merchant(merchantId).exportEndpoint());
        }
        const document = { format: FORMAT, endpoints };
        if (options.output === undefined)
          return out.result(document, () => JSON.stringify(document, undefined, 2));
        await writeFile(options.output, `${JSON.stringify(document, undefined, 2)}\n`, { mode: 0o600 });
        out.result(
          { output: options.output, endpoints: endpoints.length },
          () => `${endpointsInWords(endpoints.length)} in ${options.output}`,
        );
      });
    });
}

async function withEndpoint({ hooks }: Context): Promise<string[]> {
  const merchants = await Array.fromAsync(hooks.merchants());
  return merchants.filter(({ gate }) => gate.endpoint !== undefined).map(({ merchantId }) => merchantId);
}

function importEndpoints() {
  return new Command('import')
    .description('set endpoints from an export; each is checked first. Exit code 6 if one was refused')
    .argument('<file>', 'what export wrote, or - for standard input')
    .option('--allow-http', 'take plain http URLs; never in production')
    .option(...byFlag)
    .option(...whyFlag)
    .addHelpText(
      'after',
      '\nExample:\n  hookladder merchant import endpoints.json --why "moved to the new namespace"',
    )
    .action(async (file, options, command) => {
      await run(
        command,
        async ({ hooks, out }) => {
          const outcomes: { merchantId: string; error?: string }[] = [];
          for (const endpoint of exportedIn(await readInput(file))) {
            const { merchantId } = endpoint;
            try {
              await hooks.merchant(merchantId).importEndpoint(endpoint, causeOf(options));
              outcomes.push({ merchantId });
            } catch (error) {
              if (!isRefusal(error)) throw error;
              outcomes.push({ merchantId, error: error.message });
            }
          }
          const refused = outcomes.filter(({ error }) => error !== undefined);
          out.result(outcomes, () =>
            [
              `${outcomes.length - refused.length} of ${endpointsInWords(outcomes.length)} set`,
              ...refused.map(({ merchantId, error }) => `${merchantId}: ${error}`),
            ].join('\n'),
          );
          return refused.length === 0 ? EXIT.done : EXIT.notDone;
        },
        options,
      );
    });
}

function endpointsInWords(count: number): string {
  return count === 1 ? '1 endpoint' : `${count} endpoints`;
}

/** One endpoint that is refused does not keep the others from being set. */
function isRefusal(error: unknown): error is Error {
  const code = error instanceof HookladderError ? error.code : '';
  return ['INVALID_EXPORT', 'INVALID_ENDPOINT'].includes(code) || error instanceof SecretKeyError;
}

function exportedIn(text: string): ExportedEndpoint[] {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    throw new UsageError('the file is no JSON: give what `hookladder merchant export` wrote');
  }
  const { format, endpoints } = (document ?? {}) as { format?: unknown; endpoints?: unknown };
  if (format !== FORMAT || !Array.isArray(endpoints)) {
    throw new UsageError(
      `the file is not in the format ${FORMAT}: give what \`hookladder merchant export\` wrote`,
    );
  }
  return endpoints as ExportedEndpoint[];
}

async function secretOf(options: {
  readonly secret?: string;
  readonly secretFile?: string;
}): Promise<string> {
  if ((options.secret === undefined) === (options.secretFile === undefined)) {
    throw new UsageError(
      'give the secret by --secret-file (- for standard input) or by --secret, and only one of them',
    );
  }
  if (options.secret !== undefined) return options.secret;
  return (await readInput(options.secretFile ?? '-')).replace(/\r?\n$/, '');
}

/** What a change does at once. */
const outcomes = {
  promoteSecret: 'done: the new secret is the only one',
  pause: 'paused: all deliveries are held',
  resume: 'resumed; the held deliveries go, unless the breaker holds them',
  removeEndpoint: 'done: all deliveries are held until an endpoint is set',
} as const;

function changed(out: Output, change: Change, done = 'done'): void {
  out.result(change, () => (change.applied ? done : 'accepted: it takes effect as soon as a worker runs'));
}

/** @throws {@link MerchantNotFound} */
export async function merchantStatus({ hooks }: Context, merchantId: string): Promise<MerchantStatus> {
  const status = await hooks.merchant(merchantId).breaker();
  if (status === undefined) throw new MerchantNotFound(merchantId);
  return status;
}

/** R40. While nothing fails the entity is not told of what succeeds. */
function failuresOf(samples: number, failed: number): string {
  const counted = 'by 5xx, network or timeout';
  return failed === 0 ? `none ${counted}` : `${failed} of ${samples} attempts ${counted}`;
}

/** A merchant as it stands, with what changed it. */
export function merchantTable(status: MerchantStatus): string {
  const { gate, samples, failed, held, drainPerSecond, transitions } = status;
  const { circuit, endpoint, paused, openedAt } = gate;
  return [
    `${paint('bold', status.merchantId)}: ${status.summary}`,
    '',
    facts({
      endpoint: endpoint?.url ?? 'none',
      headers: endpoint && endpoint.headers.length > 0 ? endpoint.headers.join(', ') : undefined,
      'new secret alone from': timeOf(endpoint?.promoteAt),
      breaker: circuit.state,
      'opened at': timeOf(openedAt),
      'open until': circuit.state === 'open' ? timeOf(circuit.until) : undefined,
      'pause in a row': circuit.state === 'closed' ? undefined : circuit.pause,
      'failed in 5 min': circuit.state === 'closed' ? failuresOf(samples, failed) : undefined,
      held,
      draining: gate.draining ? `${drainPerSecond} a second` : undefined,
      paused:
        paused && `since ${timeOf(paused.since)} by ${paused.by ?? 'somebody'}: ${paused.why ?? 'no reason'}`,
    }),
    ...(transitions.length === 0 ? [] : ['']),
    ...transitions.map(({ at, event, by, why, samples: of, failed: bad, from, to }) =>
      [
        `${timeOf(at)}  ${event}`,
        by === undefined ? '' : ` by ${by}`,
        why === undefined ? '' : `: ${why}`,
        of === undefined ? '' : ` (${bad} of ${of} failed)`,
        to === undefined ? '' : ` (${from === undefined || from === to ? '' : `${from} → `}${to})`,
      ].join(''),
    ),
  ].join('\n');
}
