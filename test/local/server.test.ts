import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client, Connection } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { acceptsConnections, reserveFreePort } from '../../src/local/free-port.ts';
import { startLocalServer, type LocalServer, type LocalServerOptions } from '../../src/local/server.ts';
import { findTemporalBinary } from '../../src/local/temporal-binary.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 600_000 });

const merchant = defineSearchAttributeKey('WebhookMerchant', SearchAttributeType.KEYWORD);
const state = defineSearchAttributeKey('WebhookState', SearchAttributeType.KEYWORD);

let binary: string;

beforeAll(async () => {
  ({ path: binary } = await findTemporalBinary());
});

/** A server that this test ends with. */
async function start(options: Partial<LocalServerOptions> = {}): Promise<LocalServer> {
  const server = await startLocalServer({
    binary,
    headless: true,
    searchAttributes: { WebhookMerchant: 'Keyword' },
    ...options,
  });
  onTestFinished(() => {
    // An orderly end takes over a second, and only the tests that are about it need one.
    server.kill();
    return server.stop();
  });
  return server;
}

async function connectTo({ address }: Pick<LocalServer, 'address'>): Promise<Client> {
  const connection = await Connection.connect({ address });
  onTestFinished(() => connection.close());
  return new Client({ connection });
}

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hookladder-server-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

function portOf({ address }: Pick<LocalServer, 'address'>): number {
  return Number(address.split(':')[1]);
}

/** A program that takes the place of the Temporal CLI. */
async function programThat(script: string): Promise<string> {
  const path = join(await temporaryFolder(), 'temporal');
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
  return path;
}

async function listen(): Promise<number> {
  const listener = createServer();
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  onTestFinished(() => void listener.close());
  return (listener.address() as AddressInfo).port;
}

async function retentionDays(client: Client): Promise<number> {
  const { config } = await client.connection.withDeadline(Date.now() + 20_000, () =>
    client.workflowService.describeNamespace({ namespace: 'default' }),
  );
  return Number(config?.workflowExecutionRetentionTtl?.seconds) / (24 * 60 * 60);
}

describe('a started server', () => {
  test('takes workflows with the search attributes at once', async () => {
    const server = await start({ searchAttributes: { WebhookMerchant: 'Keyword', WebhookState: 'Keyword' } });
    const client = await connectTo(server);

    const handle = await client.workflow.start('nobody', {
      taskQueue: 'none',
      workflowId: 'first',
      typedSearchAttributes: [
        { key: merchant, value: 'm1' },
        { key: state, value: 'held' },
      ],
    });

    const { typedSearchAttributes } = await handle.describe();
    expect(typedSearchAttributes.get(merchant)).toBe('m1');
    expect(typedSearchAttributes.get(state)).toBe('held');
  });

  test('keeps closed workflows for 30 days, or as long as asked', async () => {
    expect(await retentionDays(await connectTo(await start()))).toBe(30);
    expect(await retentionDays(await connectTo(await start({ retentionDays: 7 })))).toBe(7);
  });

  test('takes dynamic config', async () => {
    const server = await start({ dynamicConfig: { 'limit.maxIDLength': 20 } });
    const client = await connectTo(server);

    const starting = client.workflow.start('nobody', {
      taskQueue: 'none',
      workflowId: 'longer-than-twenty-bytes',
    });
    await expect(starting).rejects.toMatchObject({
      cause: { message: expect.stringContaining('length') as unknown },
    });
  });

  test('serves the web UI, unless headless', async () => {
    const server = await start({ headless: false });
    expect((await fetch(server.uiUrl ?? '')).status).toBe(200);
    expect((await start({ headless: true })).uiUrl).toBeUndefined();
  });

  test('listens on the ports that were asked for', async () => {
    const port = await reserveFreePort('127.0.0.1');
    const uiPort = await reserveFreePort('127.0.0.1');
    const server = await start({ headless: false, port, uiPort });
    expect(server).toMatchObject({ address: `127.0.0.1:${port}`, uiUrl: `http://127.0.0.1:${uiPort}` });
  });

  test('is gone when stop resolves, and may be stopped again', async () => {
    const server = await start();
    await Promise.all([server.stop(), server.stop()]);
    expect(server.process.exitCode).toBe(0);
    await server.stop();
  });

  test('is ended at once by kill', async () => {
    const server = await start();
    server.kill();
    await server.stop();
    expect(server.process.signalCode).toBe('SIGKILL');
  });
});

describe('a kept state file', () => {
  test.each(['stop', 'kill'] as const)('brings an open workflow back after %s', async (ending) => {
    const dbFile = join(await temporaryFolder(), 'new-folder', 'temporal.db');
    const before = await start({ dbFile });
    await (
      await connectTo(before)
    ).workflow.start('nobody', {
      taskQueue: 'none',
      workflowId: 'open',
      typedSearchAttributes: [{ key: merchant, value: 'm1' }],
    });
    if (ending === 'kill') before.kill();
    await before.stop();

    const client = await connectTo(await start({ dbFile }));
    const { status, typedSearchAttributes } = await client.workflow.getHandle('open').describe();
    expect(status.name).toBe('RUNNING');
    expect(typedSearchAttributes.get(merchant)).toBe('m1');
    expect(await retentionDays(client)).toBe(30);
  });

  test('takes a search attribute that came later at once', async () => {
    const dbFile = join(await temporaryFolder(), 'temporal.db');
    await (await start({ dbFile })).stop();

    const searchAttributes = { WebhookMerchant: 'Keyword', WebhookState: 'Keyword' } as const;
    const client = await connectTo(await start({ dbFile, searchAttributes }));
    const handle = await client.workflow.start('nobody', {
      taskQueue: 'none',
      workflowId: 'later',
      typedSearchAttributes: [{ key: state, value: 'held' }],
    });
    expect((await handle.describe()).typedSearchAttributes.get(state)).toBe('held');
  });

  test('that has an attribute by another type is refused', async () => {
    const dbFile = join(await temporaryFolder(), 'temporal.db');
    await (await start({ dbFile })).stop();

    await expect(start({ dbFile, searchAttributes: { WebhookMerchant: 'Int' } })).rejects.toMatchObject({
      code: 'LOCAL_SEARCH_ATTRIBUTE_CONFLICT',
      message: expect.stringContaining('WebhookMerchant as Keyword, wanted Int') as unknown,
    });
    // The refused server holds nothing any more.
    await start({ dbFile });
  });

  test('that a server uses is refused to another', async () => {
    const dbFile = join(await temporaryFolder(), 'temporal.db');
    const first = await start({ dbFile });

    await expect(start({ dbFile })).rejects.toMatchObject({
      code: 'LOCAL_SERVER_STATE_IN_USE',
      message: expect.stringContaining(first.address) as unknown,
    });
    expect(await retentionDays(await connectTo(first))).toBe(30);
  });

  test('goes to one of two servers that start at the same time', async () => {
    const dbFile = join(await temporaryFolder(), 'temporal.db');
    const results = await Promise.allSettled([start({ dbFile }), start({ dbFile })]);

    expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(results).toContainEqual({
      status: 'rejected',
      reason: expect.objectContaining({ code: 'LOCAL_SERVER_STATE_IN_USE' }) as unknown,
    });
  });

  test('that an owner left to its server is taken over after that server is stopped', async () => {
    const dbFile = join(await temporaryFolder(), 'temporal.db');
    const leftover = spawn('sleep', ['600'], { argv0: dbFile });
    const gone = once(leftover, 'exit');
    const deadOwner = spawnSync('true').pid;
    await writeFile(`${dbFile}.lock`, JSON.stringify({ ownerPid: deadOwner, serverPid: leftover.pid }));
    const lines: string[] = [];

    await start({ dbFile, log: (line) => lines.push(line) });

    expect(await gone).toEqual([null, 'SIGTERM']);
    expect(lines).toEqual([expect.stringContaining(`pid ${leftover.pid}`)]);
  });

  test('whose lock names a process that is something else now is free', async () => {
    const dbFile = join(await temporaryFolder(), 'temporal.db');
    await writeFile(`${dbFile}.lock`, JSON.stringify({ ownerPid: process.pid, serverPid: process.pid }));
    await start({ dbFile });
  });
});

describe('a server that cannot start', () => {
  test.each(['port', 'uiPort'] as const)('names the taken %s', async (option) => {
    const taken = await listen();
    await expect(start({ headless: false, [option]: taken })).rejects.toMatchObject({
      code: 'LOCAL_SERVER_PORT_TAKEN',
      port: taken,
    });
  });

  test('on a port that was taken after it was found free, names that too', async () => {
    const port = await reserveFreePort('127.0.0.1');
    const program = await programThat(
      `echo "Error: listen tcp 127.0.0.1:${port}: bind: address already in use"; exit 1`,
    );
    await expect(start({ binary: program, port })).rejects.toMatchObject({
      code: 'LOCAL_SERVER_PORT_TAKEN',
      port,
    });
  });

  test('shows how it ended and the end of its output', async () => {
    const program = await programThat('echo first; echo "no such option" >&2; exit 3');
    await expect(start({ binary: program })).rejects.toMatchObject({
      code: 'LOCAL_SERVER_EXITED',
      message: expect.stringMatching(/exit code 3[^]*no such option/) as unknown,
    });
  });

  test('is stopped when it is not usable in time', async () => {
    const program = await programThat('echo "pid $$"; exec sleep 600');
    const lines: string[] = [];
    const starting = start({ binary: program, startTimeoutMs: 1_000, onOutput: (line) => lines.push(line) });
    await expect(starting).rejects.toMatchObject({ code: 'LOCAL_SERVER_START_TIMEOUT' });

    const pid = Number(lines[0]?.replace('pid ', ''));
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });
});

describe.skipIf(process.platform === 'win32')('the server of a process', () => {
  test('does not outlive it, even if that is killed, and its state is free again', async () => {
    const dbFile = join(await temporaryFolder(), 'temporal.db');
    const { owner, told } = await ownerOf(dbFile);
    owner.kill('SIGKILL');

    await vi.waitFor(async () => expect(await acceptsConnections('127.0.0.1', portOf(told))).toBe(false), {
      timeout: 60_000,
    });
    await start({ dbFile });
  });

  test('is out of reach of what a terminal sends to the process and its group', async () => {
    const { owner, told } = await ownerOf(join(await temporaryFolder(), 'temporal.db'));
    const group = -(owner.pid ?? Number.NaN);
    const client = await connectTo(told);

    // Ctrl-Z: a server in the group would stand still with it.
    process.kill(group, 'SIGSTOP');
    expect(await retentionDays(client)).toBe(30);

    // Ctrl-C: the process stops the server when it is ready to.
    process.kill(group, 'SIGCONT');
    process.kill(group, 'SIGINT');
    await once(owner, 'exit');
    expect(await acceptsConnections('127.0.0.1', portOf(told))).toBe(false);
  });
});

interface Owner {
  readonly owner: ChildProcess;
  readonly told: Pick<LocalServer, 'address'>;
}

/** A process of its own that has started a server. */
async function ownerOf(dbFile: string): Promise<Owner> {
  const program = join(import.meta.dirname, 'fixtures', 'own-a-server.ts');
  const owner = spawn(process.execPath, [program, binary, dbFile], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  onTestFinished(() => void owner.kill('SIGKILL'));
  const [line] = (await once(createInterface({ input: owner.stdout }), 'line')) as [string];
  return { owner, told: JSON.parse(line) as Owner['told'] };
}
