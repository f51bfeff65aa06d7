import { writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Hookladder } from '../client.ts';
import type { Examination } from '../doctor/examine.ts';
import { summaryOf, type CheckResult, type CheckVerdict, type DoctorReport } from '../doctor/report.ts';
import { networkProblem, networksOf } from '../http/address-guard.ts';
import { guarded, headersOf, readInput, run } from './context.ts';
import { EXIT, UsageError } from './exit-codes.ts';
import { collect, duration } from './options.ts';
import { openProgressBar, paint, type Output } from './output.ts';
import { messageOf } from '../message-of.ts';

/** Examines a receiver, for a platform or for the merchant. */
export function doctorCommand(): CommandUnknownOpts {
  return new Command('doctor')
    .description(
      'examine a webhook endpoint: signatures, handling, certificate, time; exit code 7 or 8 if something is wrong',
    )
    .argument('[url]', 'the address that webhooks are sent to')
    .option('--merchant <id>', 'take address, secret and headers of this merchant from Temporal instead')
    .option('--secret-file <path>', 'read the signing secret from a file, or from standard input (-)')
    .option(
      '--secret <secret>',
      'the signing secret; other users of this machine can see it in the list of processes: prefer --secret-file',
    )
    .option('--headers-file <path>', 'custom headers of the endpoint, a JSON object of names and values')
    .option('--only <checks>', 'these checks only, separated by commas', list)
    .option('--skip <checks>', 'leave these out', list)
    .option(
      '--allow-network <cidr>',
      'a private network that may be reached, such as 10.1.0.0/16; may be repeated',
      collect,
      [],
    )
    .option('--ca-file <path>', 'certificates in PEM that are trusted too')
    .option(
      '--type <type>',
      'event type of the test events, one that the receiver knows; hookladder.test by default',
    )
    .option('--pace <duration>', 'between the beginnings of two requests', duration, 200)
    .option('--time-limit <duration>', 'after this no request is begun', duration, 180_000)
    .option('--html <file>', 'write the report as one HTML file too, to be sent to a merchant')
    .option('--docs <url>', 'where docs/receivers.md is published, for the links of the report')
    .addHelpText(
      'after',
      `
The secret comes from --secret-file, or from the variable WEBHOOK_SECRET, or is asked for. All that is sent are test events:
of the type hookladder.test, with "test": true, and ids that begin with doctor_. Temporal is needed for --merchant only, and
then the keys of HOOKLADDER_SECRET_KEYS_FILE are, too. As in a worker, HOOKLADDER_ALLOWED_NETWORKS, HOOKLADDER_CA_FILE and
HOOKLADDER_EGRESS_PROXY hold.

Exit code 0: nothing is wrong, or there is advice; 7: warnings; 8: faults.

Examples:
  hookladder doctor https://shop.example/webhooks --secret-file secret.txt --html report.html
  hookladder doctor https://shop.example/webhooks --secret-file secret.txt --only certificate,answer-time
  hookladder doctor --merchant shop-1
  hookladder doctor http://127.0.0.1:8080/ --secret-file secret.txt --allow-network 127.0.0.0/8 --skip https`,
    )
    .action(async (url, options, command) => {
      const { merchant } = options;
      if (url !== undefined && merchant === undefined) {
        return await guarded(command, async (out) => {
          const [secret, headers] = [await secretOf(options), await headersOf(options.headersFile)];
          return await doctor(out, { url, secret, headers }, options);
        });
      }
      if (url !== undefined || merchant === undefined) {
        return await guarded(command, () => {
          throw new UsageError('give the address, or a merchant by --merchant, and only one of them');
        });
      }
      await run(command, async ({ hooks, out }) => {
        if ((options.secret ?? options.secretFile ?? options.headersFile) !== undefined) {
          throw new UsageError('with --merchant leave --secret, --secret-file and --headers-file out');
        }
        return await doctor(out, await endpointOf(hooks, merchant), options);
      });
    });
}

interface Options {
  readonly merchant?: string;
  readonly secret?: string;
  readonly secretFile?: string;
  readonly headersFile?: string;
  readonly only?: readonly string[];
  readonly skip?: readonly string[];
  readonly allowNetwork: readonly string[];
  readonly caFile?: string;
  readonly type?: string;
  readonly pace: number;
  readonly timeLimit: number;
  readonly html?: string;
  readonly docs?: string;
}

type Endpoint = Pick<Examination, 'url' | 'secret' | 'headers'>;

async function doctor(out: Output, endpoint: Endpoint, options: Options): Promise<number> {
  // Loaded only now, so that help and completion answer at once.
  const [{ examine, extentOf, chosenChecks }, { checks }, { SendingFault }] = await Promise.all([
    import('../doctor/examine.ts'),
    import('../doctor/checks.ts'),
    import('../http/network-failures.ts'),
  ]);
  const ids = checks.map(({ id }) => id);
  const unknown = [...(options.only ?? []), ...(options.skip ?? [])].filter((id) => !ids.includes(id));
  if (unknown.length > 0)
    throw new UsageError(`there is no check ${unknown.join(', ')}; there are ${ids.join(', ')}`);
  if (chosenChecks(options).length === 0) throw new UsageError('--only and --skip leave no check to make');
  const bar = openProgressBar(out);
  const examination: Examination = {
    ...options,
    ...(await edgeOf(options)),
    ...endpoint,
    limits: { paceMs: options.pace, totalMs: options.timeLimit },
    onCheck: ({ title }, nth, of) => bar.show(nth / of, title),
  };
  const { requests, withinMs } = extentOf(examination);
  out.note(
    `At most ${requests} test events within ${Math.round(withinMs / 1_000)} s; no payment is touched. Ctrl-C ends it.`,
  );
  let report: DoctorReport;
  try {
    report = await examine(examination);
  } catch (error) {
    if (!(error instanceof SendingFault)) throw error;
    out.error({ code: 'SENDING_FAULT', message: `nothing can be sent from here: ${error.message}` });
    return EXIT.defect;
  } finally {
    bar.end();
  }
  if (options.html !== undefined) await writeReport(options.html, report);
  out.result(report, () => inWords(report));
  if (options.html !== undefined) out.note(`\nThe report is in ${options.html}`);
  return { ok: EXIT.done, warning: EXIT.warnings, fault: EXIT.faults }[report.verdict];
}

/** The endpoint as it is set; what is sealed of it is opened here and goes nowhere else. */
async function endpointOf(hooks: Hookladder, merchantId: string): Promise<Endpoint> {
  const [{ keysFromEnvironment }, { SecretBox }, { openHeaders }] = await Promise.all([
    import('../key-list.ts'),
    import('../secrets.ts'),
    import('../custom-headers.ts'),
  ]);
  const keys = keysFromEnvironment();
  if (keys === undefined) {
    throw new UsageError('the secret cannot be opened without a key: set HOOKLADDER_SECRET_KEYS_FILE');
  }
  const box = new SecretBox(keys);
  const exported = await hooks.merchant(merchantId).exportEndpoint();
  const secret = await box.open(merchantId, exported.secret);
  return { url: exported.url, secret, headers: await openHeaders(box, merchantId, exported) };
}

/** Where requests may go, and whom they trust: as a worker of this environment, and what the flags add. */
async function edgeOf({ allowNetwork, caFile }: Options): Promise<Partial<Examination>> {
  const {
    HOOKLADDER_ALLOWED_NETWORKS: allowed,
    HOOKLADDER_CA_FILE: usualCa,
    HOOKLADDER_EGRESS_PROXY: proxy,
  } = process.env;
  const allowedNetworks = [...networksOf(allowed), ...allowNetwork];
  const problem = networkProblem(allowedNetworks);
  if (problem !== undefined) throw new UsageError(problem);
  const [{ certificatesOf }, { proxyProblem }] = await Promise.all([
    import('../http/tls.ts'),
    import('../http/egress-proxy.ts'),
  ]);
  const trustedCertificates: string[] = [];
  for (const path of [usualCa, caFile]) {
    if (!path) continue;
    const pem = await readInput(path);
    try {
      trustedCertificates.push(...certificatesOf(pem));
    } catch (error) {
      throw new UsageError(`${path} ${messageOf(error)}`);
    }
  }
  if (!proxy) return { allowedNetworks, trustedCertificates };
  const wrong = proxyProblem(proxy);
  if (wrong !== undefined) throw new UsageError(`HOOKLADDER_EGRESS_PROXY ${wrong}`);
  return { allowedNetworks, trustedCertificates, egressProxy: new URL(proxy) };
}

async function secretOf({ secret, secretFile }: Options): Promise<string> {
  if (secret !== undefined && secretFile !== undefined) {
    throw new UsageError('give the secret by --secret-file or by --secret, and only one of them');
  }
  if (secret !== undefined) return secret;
  if (secretFile !== undefined) return (await readInput(secretFile)).replace(/\r?\n$/, '');
  const { WEBHOOK_SECRET: named } = process.env;
  if (named) return named;
  if (process.stdin.isTTY) return await askedFor('Signing secret (it is not shown): ');
  throw new UsageError(
    'give the secret by --secret-file (- for standard input) or in the variable WEBHOOK_SECRET',
  );
}

/** What is typed is not shown. */
async function askedFor(question: string): Promise<string> {
  process.stderr.write(question);
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: nowhere, terminal: true });
  try {
    lines.once('SIGINT', () => process.exit(EXIT.interrupted));
    return await lines.question('');
  } finally {
    lines.close();
    process.stderr.write('\n');
  }
}

async function writeReport(path: string, report: DoctorReport): Promise<void> {
  const { reportAsHtml } = await import('../doctor/html.ts');
  await writeFile(path, reportAsHtml(report)).catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${path} cannot be written (${error.code ?? error.message})`);
  });
}

const marks = {
  ok: ['green', '✓'],
  'not-checked': ['gray', '–'],
  advice: ['cyan', 'i'],
  warning: ['yellow', '!'],
  fault: ['red', '✕'],
} as const satisfies Record<CheckVerdict, unknown>;

function inWords(report: DoctorReport): string {
  const { url, kit, requests, durationMs, verdict, run: idPrefix } = report;
  const colour = { ok: 'green', warning: 'yellow', fault: 'red' } as const;
  return [
    `${paint('bold', url)}${kit === undefined ? '' : ` (${kit})`}`,
    '',
    ...report.checks.map(checkInWords),
    '',
    `${paint(colour[verdict], summaryOf(report))} Requests: ${requests}, in ${Math.round(durationMs / 1_000)} s; ids: ${idPrefix}_…`,
  ].join('\n');
}

function checkInWords({ id, title, verdict, sent, seen, remedy, see }: CheckResult): string {
  const [colour, mark] = marks[verdict];
  const line = `${paint(colour, mark)} ${id.padEnd(18)} ${title}`;
  if (verdict === 'ok') return `${line}\n${paint('dim', `    ${seen}`)}`;
  return [
    line,
    ...(sent === 'nothing' ? [] : [`    sent   ${sent}`]),
    `    seen   ${seen}`,
    ...(remedy === undefined ? [] : [`    to do  ${remedy}`]),
    ...(verdict === 'not-checked' ? [] : [`    see    ${see}`]),
  ].join('\n');
}

function list(text: string): string[] {
  return text.split(',').map((each) => each.trim());
}
