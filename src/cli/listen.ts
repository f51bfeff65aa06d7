import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, InvalidArgumentError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { readableText } from '../http/response-body.ts';
import { nodeBody } from '../receiver/adapters.ts';
import { createReceiver, NoBody, type Reply } from '../receiver/receiver.ts';
import { guarded, readInput } from './context.ts';
import { EXIT, UsageError } from './exit-codes.ts';
import { collect, duration, wholeNumber } from './options.ts';
import { paint, type Output } from './output.ts';

/** How webhooks that are picked are treated. */
interface Trouble {
  readonly fail?: number | undefined;
  readonly delay?: number | undefined;
  readonly drop?: boolean | undefined;
  readonly first?: number | undefined;
  readonly share?: number | undefined;
}

/** One request, as it is printed. */
interface Heard {
  readonly at: string;
  readonly method: string;
  readonly path: string;
  /** `genuine`, `not-checked`, or why it is not genuine. */
  readonly signature: string;
  /** What to do where it is not genuine. */
  readonly remedy: string | undefined;
  readonly id: string | undefined;
  readonly type: string | undefined;
  readonly attempt: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyBytes: number | undefined;
  readonly body: string | undefined;
  readonly answer: {
    /** None where the connection is closed without an answer. */
    readonly status?: number | undefined;
    readonly outcome: string;
    readonly delayMs: number | undefined;
  };
}

/** A local receiver, for whoever writes one. */
export function listenCommand(): CommandUnknownOpts {
  return new Command('listen')
    .description('a local receiver for development: verifies and prints webhooks, and fails on request')
    .option('--port <port>', 'to listen on; 0 takes a free one', portNumber, 8080)
    .option('--host <address>', 'to listen on', '127.0.0.1')
    .option(
      '--secret <secret>',
      'signing secret, seen in the list of processes; may be repeated',
      collect,
      [],
    )
    .option(
      '--secret-file <path>',
      'read it from a file, or from standard input (-); may be repeated',
      collect,
      [],
    )
    .option('--body', 'print bodies too')
    .option('--all-headers', 'print the values of all headers, credentials too')
    .option('--fail <status>', 'answer with this status', status)
    .option('--delay <duration>', 'answer after this time, such as 500ms, 12s', duration)
    .option('--drop', 'close the connection without an answer')
    .option('--first <count>', 'do so to the first webhooks only', wholeNumber)
    .option('--share <share>', 'do so to this share of the webhooks, evenly: 0.2 is each fifth', shareOfAll)
    .addHelpText(
      'after',
      `
Without a secret signatures are not checked. Headers that an endpoint was given of its own may be credentials: only their
names are printed. Webhooks that are failed or dropped count as not handled; --delay alone handles first, then waits.

Examples:
  hookladder listen --secret-file secret.txt
  hookladder listen --secret-file secret.txt --fail 500 --first 3
  hookladder listen --secret-file secret.txt --delay 12s --share 0.2 --json`,
    )
    .action(async (options, command) => {
      await guarded(command, async (out) => {
        checkTrouble(options);
        const files = await Promise.all(options.secretFile.map(readInput));
        const secrets = [...options.secret, ...files.map((text) => text.replace(/\r?\n$/, ''))];
        await listen(out, { ...options, secrets });
        return EXIT.done;
      });
    });
}

interface Settings extends Trouble {
  readonly port: number;
  readonly host: string;
  readonly secrets: readonly string[];
  readonly body?: boolean | undefined;
  readonly allHeaders?: boolean | undefined;
}

/** Serves until SIGINT or SIGTERM. */
async function listen(out: Output, settings: Settings): Promise<void> {
  const stop = new AbortController();
  const counts = { received: 0, genuine: 0, troubled: 0 };
  const isTroubled = pickerOf(settings);
  const listener = new Listener(settings);
  const server = createServer((request, response) => {
    void (async () => {
      const troubled = request.method === 'POST' && isTroubled();
      const { heard, reply } = await listener.hear(request, troubled);
      counts.received += 1;
      if (heard.signature === 'genuine') counts.genuine += 1;
      if (troubled) counts.troubled += 1;
      process.stdout.write(out.json ? `${JSON.stringify(heard)}\n` : `${inWords(heard)}\n\n`);
      await answer(response, heard, reply, stop.signal);
    })().catch((error: unknown) => {
      out.error({ code: 'DEFECT', message: String(error) });
      response.destroy();
    });
  });
  server.listen(settings.port, settings.host);
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      `${settings.host}:${settings.port} cannot be listened on (${error.code ?? error.message}): ` +
        'choose another --port or --host',
    );
  });
  const { address, port } = server.address() as AddressInfo;
  const url = `http://${address.includes(':') ? `[${address}]` : address}:${port}/`;
  if (out.json) process.stdout.write(`${JSON.stringify({ listening: url })}\n`);
  if (settings.secrets.length === 0) out.note('No secret was given: signatures are not checked.');
  out.note(`Listening on ${url}. Ctrl-C ends it.\n`);
  await new Promise((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
  });
  stop.abort();
  server.close();
  server.closeAllConnections();
  out.note(
    `${counts.received} received, ${counts.genuine} genuine, ${counts.troubled} failed, delayed or dropped on request`,
  );
}

/** Decides what to answer, and tells what was seen. */
class Listener {
  private readonly settings: Settings;
  private readonly receive;
  /** What is failed on request is verified, and not handled. */
  private readonly verifyOnly;

  constructor(settings: Settings) {
    this.settings = settings;
    const options = { secrets: settings.secrets, handler: () => undefined, log: () => undefined };
    this.receive = createReceiver(options);
    this.verifyOnly = createReceiver(options);
  }

  async hear(
    request: IncomingMessage,
    troubled: boolean,
  ): Promise<{ heard: Heard; reply: Reply | undefined }> {
    const { fail, drop, delay, secrets, body: showsBody, allHeaders = false } = this.settings;
    const { method = '', headers } = request;
    const body = await nodeBody(request, {});
    const isFailed = troubled && (fail !== undefined || drop === true);
    const isChecked = secrets.length > 0 || method !== 'POST' || body instanceof NoBody;
    const receive = isFailed ? this.verifyOnly : this.receive;
    const kit = isChecked ? await receive({ method, headers, body }) : undefined;
    const { id, type, attempt, problem } = kit?.entry ?? {};
    const named = id ?? headers['x-webhook-id'] ?? headers['webhook-id'];
    const bytes = body instanceof ArrayBuffer ? body : undefined;
    const usual = { status: kit?.status ?? 200, outcome: kit?.entry.outcome ?? 'received' };
    const failed = drop ? { outcome: 'dropped on request' } : { status: fail, outcome: 'failed on request' };
    const heard = {
      at: new Date().toISOString(),
      method,
      path: readableText(request.url ?? '/'),
      signature: kit === undefined ? 'not-checked' : (problem?.code ?? 'genuine'),
      remedy: problem?.remedy,
      id: named === undefined ? undefined : readableText(String(named)),
      type: type === undefined ? undefined : readableText(type),
      attempt,
      headers: shown(request, allHeaders),
      bodyBytes: bytes?.byteLength,
      body: bytes === undefined || !showsBody ? undefined : readableText(new TextDecoder().decode(bytes)),
      answer: { ...(isFailed ? failed : usual), delayMs: troubled ? delay : undefined },
    };
    return { heard, reply: isFailed ? undefined : kit };
  }
}

async function answer(
  response: ServerResponse,
  { answer: { status: code, outcome, delayMs } }: Heard,
  reply: Reply | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (delayMs !== undefined) await sleep(delayMs, undefined, { signal }).catch(() => undefined);
  if (code === undefined || signal.aborted) response.socket?.resetAndDestroy();
  else if (reply !== undefined) response.writeHead(code, reply.headers).end(reply.body);
  else response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify({ outcome }));
}

/** Says of one webhook after the other whether it is picked. */
function pickerOf({ fail, delay, drop, first, share }: Trouble): () => boolean {
  const isAny = fail !== undefined || delay !== undefined || drop === true;
  let nth = 0;
  return () => {
    if (!isAny) return false;
    nth += 1;
    if (first !== undefined) return nth <= first;
    // A little more than is lost in the fractions of binary numbers.
    if (share !== undefined) return Math.floor(nth * share + 1e-9) > Math.floor((nth - 1) * share + 1e-9);
    return true;
  };
}

function checkTrouble({ fail, delay, drop, first, share }: Trouble): void {
  if (fail !== undefined && drop) throw new UsageError('give --fail or --drop, and only one of them');
  if (first !== undefined && share !== undefined)
    throw new UsageError('give --first or --share, and only one of them');
  if (fail === undefined && delay === undefined && !drop && (first ?? share) !== undefined) {
    throw new UsageError('--first and --share need what to do: --fail, --delay or --drop');
  }
}

const known =
  /^(?:x-webhook-.*|webhook-(?:id|timestamp|signature)|content-(?:type|length)|host|user-agent|connection)$/;

function shown({ headersDistinct }: IncomingMessage, all: boolean): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headersDistinct).map(([name, values = []]) => [
      name,
      all || known.test(name) ? readableText(values.join(', ')) : '(not shown)',
    ]),
  );
}

function inWords({
  at,
  method,
  path,
  signature,
  remedy,
  id,
  type,
  attempt,
  headers,
  bodyBytes,
  body,
  answer: told,
}: Heard): string {
  const verdict = paint(
    signature === 'genuine' ? 'green' : signature === 'not-checked' ? 'yellow' : 'red',
    signature,
  );
  const later = told.delayMs === undefined ? '' : `, after ${told.delayMs / 1_000} s`;
  return [
    [at, method, path, id, type, attempt === undefined ? undefined : `attempt ${attempt}`]
      .filter(Boolean)
      .join(' '),
    `  signature ${verdict}${remedy === undefined ? '' : `: ${remedy}`}`,
    `  answer    ${[told.status, told.outcome].filter(Boolean).join(' ')}${later}`,
    ...Object.entries(headers).map(([name, value]) => paint('dim', `  ${name}: ${value}`)),
    bodyBytes === undefined ? '' : `  body      ${bodyBytes} bytes${body === undefined ? '' : `\n${body}`}`,
  ]
    .filter((line) => line !== '')
    .join('\n');
}

function portNumber(text: string): number {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65_535) throw new InvalidArgumentError('It must be a port, 0 to 65535.');
  return port;
}

function status(text: string): number {
  if (!/^[2-5]\d\d$/.test(text)) throw new InvalidArgumentError('It must be a status from 200 to 599.');
  return Number(text);
}

function shareOfAll(text: string): number {
  const share = Number(text);
  if (!(share > 0 && share <= 1))
    throw new InvalidArgumentError('It must be above 0 and at most 1, such as 0.2.');
  return share;
}
