import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, type TestContext } from 'vitest';
import { examine } from '../../src/doctor/examine.ts';
import type { Sender } from '../../src/http/sender.ts';
import { postTo, senderFor } from '../support/posting.ts';
import { runProgram } from '../any-language/run-program.ts';
import { expectAnswer, OLD_SECRET, paid, rightAnswers, SECRET, send, untilPrinted, vectors } from './wire.ts';

const examples = join(import.meta.dirname, '..', '..', 'examples', 'receivers');

/** One program of examples/receivers/. */
interface Example {
  /** What says whether the language is here. */
  readonly version: readonly [string, ...string[]];
  /** Builds it, where that is needed, and says how it is run. */
  command(folder: string, port: number): Promise<readonly [string, ...string[]]>;
  readonly unreadable?: readonly string[];
}

const languages: Record<string, Example> = {
  Python: {
    version: ['python3', '--version'],
    command: async () => ['python3', join(examples, 'receiver.py')],
  },
  Go: {
    version: ['go', 'version'],
    async command(folder) {
      const program = join(folder, 'receiver');
      const built = await runProgram('go', ['build', '-o', program, join(examples, 'receiver.go')], {
        env: { GOTOOLCHAIN: 'local' },
      });
      if (built.exitCode !== 0) throw new Error(built.stderr);
      return [program];
    },
  },
  Java: { version: ['java', '--version'], command: async () => ['java', join(examples, 'Receiver.java')] },
  PHP: {
    version: ['php', '--version'],
    command: async (_, port) => ['php', '-S', `127.0.0.1:${port}`, join(examples, 'receiver.php')],
    // PHP knows no text with a lone surrogate.
    unreadable: ['evt_0_6'],
  },
};

const kits: Record<string, Example> = Object.fromEntries(
  ['express', 'fastify-sqlite'].map((name) => [
    name,
    {
      version: [process.execPath, '--version'],
      command: async () => [process.execPath, join(examples, `${name}.ts`)],
    } satisfies Example,
  ]),
);

let folder: string;
const running: ChildProcess[] = [];

function killGroup(child: ChildProcess | undefined): void {
  if (child?.pid !== undefined && child.exitCode === null && child.signalCode === null) {
    process.kill(-child.pid, 'SIGKILL');
  }
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hookladder-receivers-'));
});
afterAll(async () => {
  for (const child of running) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const gone = once(child, 'exit');
    killGroup(child);
    await gone;
  }
  await rm(folder, { recursive: true });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

/** Starts an example, and gives its URL; the test is skipped where the language is missing. */
async function start(
  context: TestContext,
  name: string,
  example: Example,
  environment: Record<string, string>,
): Promise<string> {
  const [program, ...args] = example.version;
  const isThere = await runProgram(program, args).then(
    ({ exitCode }) => exitCode === 0,
    () => false,
  );
  if (!isThere) {
    const reason = `there is no ${name}`;
    // The default reporter keeps a skip's reason to itself.
    console.warn(`skipped: ${reason}`);
    return context.skip(reason);
  }
  const port = name === 'PHP' ? await freePort() : 0;
  const [command, ...rest] = await example.command(folder, port);
  const child = spawn(command, rest, {
    cwd: folder,
    env: { ...process.env, PORT: String(port), PHP_CLI_SERVER_WORKERS: '4', ...environment },
    stdio: 'pipe',
    // PHP's server has processes of its own.
    detached: true,
  });
  running.push(child);
  const [, base] = await untilPrinted(child, /(http:\/\/127\.0\.0\.1:\d+)/);
  return `${base}/webhooks`;
}

async function secretsFile(name: string, secrets: readonly string[]): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, `${secrets.join('\n')}\n`);
  return path;
}

async function environmentOf(name: string): Promise<Record<string, string>> {
  return {
    WEBHOOK_SECRETS_FILE: await secretsFile(`${name}-secrets.txt`, [OLD_SECRET, SECRET]),
    WEBHOOK_SECRET: [OLD_SECRET, SECRET].join(','),
    WEBHOOK_DATABASE: join(folder, `${name}.db`),
    WEBHOOK_FOLDER: join(folder, `${name}-handled`),
  };
}

describe.each(Object.entries({ ...kits, ...languages }))('the example in %s', (name, example) => {
  test('on the wire: R1 R2 R30 R61 R62 R63 R64', { timeout: 240_000 }, async (context) => {
    const url = await start(context, name, example, await environmentOf(name));
    const sender = senderFor();
    for (const [rule, check] of Object.entries(rightAnswers)) {
      await check(url, sender, example).catch((error: unknown) => {
        throw new Error(`${rule}: ${String(error)}`, { cause: error });
      });
    }
    const { checks } = await examine({
      url,
      secret: SECRET,
      allowedNetworks: ['127.0.0.0/8'],
      skip: ['https'],
      limits: { paceMs: 0, idleMs: 300, samples: 3 },
    });
    const wrong = checks.filter(({ id, verdict }) => {
      const isUnreadable = example.unreadable !== undefined && id === 'raw-body';
      return verdict === 'fault' || (verdict === 'warning' && !isUnreadable);
    });
    expect(wrong).toEqual([]);
  });
});

describe.each(Object.entries(languages))('the example in %s', (name, example) => {
  test(
    'R61 R62 E13 verifies the signature vectors, and none with another byte',
    { timeout: 240_000 },
    async (context) => {
      const file = await secretsFile(
        `${name}-vectors.txt`,
        vectors.map(({ secret }) => secret),
      );
      const url = await start(context, name, example, {
        ...(await environmentOf(`${name}-vectors`)),
        WEBHOOK_SECRETS_FILE: file,
        WEBHOOK_TOLERANCE_SECONDS: String(100 * 365 * 86_400),
      });
      const sender = senderFor();
      for (const vector of vectors) await verifies(url, sender, vector);
    },
  );
});

async function verifies(url: string, sender: Sender, vector: (typeof vectors)[number]): Promise<void> {
  const body = Buffer.from(vector.bodyBase64, 'base64');
  const { id, timestamp } = vector;
  const own = {
    'X-Webhook-Id': id,
    'X-Webhook-Timestamp': timestamp,
    'X-Webhook-Signature': vector.xWebhookSignature,
  };
  const standard = {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': vector.webhookSignature,
  };
  for (const family of [own, standard]) {
    const headers = { 'Content-Type': 'application/json', ...family };
    const verdict = await postTo(url, { sender, headers, body });
    // Handled, a duplicate, or JSON that the language does not take: the signature is right.
    expect(verdict).toMatchObject({ excerpt: expect.stringMatching(/handled|duplicate|not-json/) });
    const altered = Buffer.concat([body, Buffer.from(' ')]);
    await expectAnswer(postTo(url, { sender, headers, body: altered }), 401, 'wrong-signature');
  }
}

test('R64 SQLite: what was handled is known after the process was killed', async (context) => {
  const environment = await environmentOf('killed');
  const sender = senderFor();
  const sent = { id: 'evt_1', body: paid() };
  const first = await start(context, 'fastify-sqlite', kits['fastify-sqlite'] as Example, environment);
  await expectAnswer(send(first, sender, sent), 200, 'handled');
  killGroup(running.at(-1));
  const second = await start(context, 'fastify-sqlite', kits['fastify-sqlite'] as Example, environment);
  await expectAnswer(send(second, sender, sent), 200, 'duplicate');
});
