import { execFile } from 'node:child_process';
import { access, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { runInNewContext } from 'node:vm';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type * as kit from '../../src/receiver/index.ts';
import { headersOf, paid, SECRET } from './wire.ts';

const root = join(import.meta.dirname, '..', '..');
const run = promisify(execFile);
const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
let folder: string;
let built: Promise<string>;

beforeAll(async () => {
  folder = await mkdtemp(join(root, '.hookladder', 'receiver-'));
  built = build();
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

/** Builds the entry point as the package does, and nothing else. */
async function build(): Promise<string> {
  const settings = {
    extends: join(root, 'tsconfig.build.json'),
    compilerOptions: {
      rootDir: join(root, 'src'),
      outDir: folder,
      typeRoots: [join(root, 'node_modules/@types')],
    },
    include: [join(root, 'src/receiver')],
  };
  const project = join(folder, 'tsconfig.json');
  await writeFile(project, JSON.stringify(settings));
  await run(process.execPath, [compiler, '-p', project]);
  return join(folder, 'receiver', 'index.js');
}

/** Node 20 from NODE20, or the PATH; `undefined` if there is none. */
async function node20(): Promise<string | undefined> {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  for (const path of [process.env['NODE20'], ...folders.map((each) => join(each, 'node'))]) {
    if (path === undefined) continue;
    const isThere = await access(path).then(
      () => true,
      () => false,
    );
    if (isThere && (await run(path, ['--version'])).stdout.startsWith('v20.')) return path;
  }
}

test('the kit has no dependency and is under 10 KB when minified', async () => {
  const bundle = await rolldown({ input: join(root, 'src/receiver/index.ts'), platform: 'neutral' });
  const { output } = await bundle.generate({ minify: true });
  await bundle.close();
  const [{ imports, dynamicImports, modules, code }] = output;
  expect([...imports, ...dynamicImports]).toEqual([]);
  expect(output).toHaveLength(1);
  for (const path of Object.keys(modules)) expect(path).toContain('/src/receiver/');
  expect(Buffer.byteLength(code)).toBeLessThan(10_000);
  // Nothing of Node: the edge has none.
  expect(code).not.toMatch(/\bprocess\b|\bBuffer\b|node:/);
});

test('R61 R62 the kit needs nothing but what the edge has', async () => {
  const bundle = await rolldown({ input: join(root, 'src/receiver/index.ts'), platform: 'neutral' });
  const { output } = await bundle.generate({ format: 'iife', name: 'kit' });
  await bundle.close();
  const web = { crypto, TextEncoder, TextDecoder, Blob, Response, atob, setTimeout, clearTimeout, console };
  const { fetchHandler } = runInNewContext(`${output[0].code}; kit`, web) as typeof kit;
  const handle = fetchHandler({ secrets: SECRET, handler: () => undefined, log: () => undefined });
  const request = () => new Request('https://shop.example', { method: 'POST', headers, body: paid() });
  const headers = headersOf({});
  const answers = [await handle(request()), await handle(request())];
  expect(await Promise.all(answers.map(async (each) => await each.text()))).toEqual([
    '{"outcome":"handled"}',
    '{"outcome":"duplicate"}',
  ]);
});

test('R30 the built types tell events apart, without those of Node', async () => {
  await writeFile(
    join(await built, '..', 'consumer.ts'),
    `import { expressHandler, fetchHandler, verify, type WebhookEvent } from './index.js';
     export function statusOf(event: WebhookEvent): string | undefined {
       if (!event.known) return event.type;
       switch (event.type) {
         case 'payment.status_changed':
           return event.data.status;
         // @ts-expect-error there is no such type
         case 'payment.changed':
         default:
           return undefined;
       }
     }
     export const POST: (request: Request) => Promise<Response> = fetchHandler({ secrets: ['a', undefined], handler: statusOf });
     export const handler = expressHandler({ secrets: async () => await Promise.resolve('a'), handler: statusOf });
     export const verified = await verify(new Headers(), new Uint8Array(), undefined);
     if (verified.ok) statusOf(verified.event);
     else console.log(verified.problem.remedy);
    `,
  );
  const options = [
    '--strict',
    '--noEmit',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--lib',
    'es2022,dom',
    '--types',
    '',
  ];
  await run(process.execPath, [
    compiler,
    '--ignoreConfig',
    ...options,
    join(await built, '..', 'consumer.ts'),
  ]).catch((error: { stdout?: string }) => {
    throw new Error(error.stdout);
  });
});

test('R61 R62 the built kit works on Node 20 and 24', async (context) => {
  const entry = await built;
  const program = join(folder, 'program.mjs');
  await writeFile(
    program,
    `import { createServer } from 'node:http';
     import { nodeHandler } from '${entry}';
     const options = { secrets: ${JSON.stringify(SECRET)}, handler: (event) => console.log(event.type, event.data.status), log: () => {} };
     const server = createServer(nodeHandler(options)).listen(0, '127.0.0.1', async () => {
       const headers = ${JSON.stringify(headersOf({}))};
       const url = 'http://127.0.0.1:' + server.address().port;
       for (const body of [${JSON.stringify(paid())}, ${JSON.stringify(paid())}, '{}']) {
         const response = await fetch(url, { method: 'POST', headers, body });
         console.log(response.status, await response.text());
       }
       server.closeAllConnections();
       server.close();
     });`,
  );
  const expected = [
    'payment.status_changed paid',
    '200 {"outcome":"handled"}',
    '200 {"outcome":"duplicate"}',
    '401 {"error":"wrong-signature"}',
    '',
  ].join('\n');
  expect((await run(process.execPath, [program])).stdout).toBe(expected);

  const twenty = await node20();
  if (twenty === undefined) {
    const reason = 'there is no Node 20: give one by NODE20';
    console.warn(`skipped: ${reason}`);
    return context.skip(reason);
  }
  expect((await run(twenty, [program])).stdout).toBe(expected);
});

test('the package names the entry point', () => {
  const { exports } = createRequire(import.meta.url)('../../package.json') as {
    exports: Record<string, unknown>;
  };
  expect(exports['./receiver']).toEqual({
    types: './dist/receiver/index.d.ts',
    default: './dist/receiver/index.js',
  });
});
