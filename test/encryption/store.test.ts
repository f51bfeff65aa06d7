import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Client, Connection } from '@temporalio/client';
import proto from '@temporalio/proto';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { Hookladder } from '../../src/client.ts';
import { DELIVERY_WORKFLOW, merchantWorkflowId, SEARCH_ATTRIBUTES } from '../../src/contract.ts';
import { dataConverterOf } from '../../src/encryption/encryption.ts';
import { newKey } from '../../src/key-list.ts';
import { startLocalServer, type LocalServer } from '../../src/local/server.ts';
import { startWorkers, type RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { freshMerchant, LOOPBACK, SECRET_KEYS } from '../support/stack.ts';

const {
  DescribeWorkflowExecutionResponse,
  GetWorkflowExecutionHistoryResponse,
  ListWorkflowExecutionsResponse,
} = proto.temporal.api.workflowservice.v1;

/** Each is a part of something that must not be read in the store. */
const CONFIDENTIAL = {
  body: '4242424242424242',
  secret: 'whsec-like-1f6d22',
  address: 'hook-path-9b7e55',
  addressBefore: 'hook-path-3c1d08',
  host: 'no-such-host-5a90.invalid',
  header: 'Bearer-c0ffee-8812',
  answer: 'answered-with-77ab',
  redirect: 'moved-to-b1c2d3',
  cause: 'reason-given-4e4e',
};
/** What is looked for where it must be found, so that we know that we can find. */
const CONTROL = 'sent-in-clear-60d1';

const policy = { fast: { firstPauseMs: 50 }, breaker: { leastSamples: 3 } };
const money = { type: 'payment.status_changed', body: `{"status":"paid","card":"${CONFIDENTIAL.body}"}` };
const kyc = { type: 'kyc.status_changed', body: `{"card":"${CONFIDENTIAL.body}"}` };
const cause = { by: 'ann', why: CONFIDENTIAL.cause };

let folder: string;
let server: LocalServer;
let connection: Connection;
let workers: RunningWorkers;
let receiver: Receiver;
let temporal: Client;
let hooks: Hookladder;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hookladder-store-'));
  server = await startLocalServer({
    binary: inject('temporalBinary'),
    headless: true,
    searchAttributes: SEARCH_ATTRIBUTES,
    dbFile: join(folder, 'temporal.db'),
    dynamicConfig: { 'history.timerProcessorMaxTimeShift': '10ms' },
  });
  const { address } = server;
  const encryption = { keys: newKey('k1') };
  workers = await startWorkers({
    connection: { address },
    namespace: 'default',
    secretKeys: SECRET_KEYS,
    encryption,
    allowedNetworks: LOOPBACK,
    workflowBundle: { codePath: inject('workflowBundlePath') },
    shutdownGraceMs: 5_000,
  });
  connection = await Connection.connect({ address });
  temporal = new Client({ connection, dataConverter: dataConverterOf(encryption) });
  const options = { client: temporal, encryption, allowHttp: true, allowedNetworks: LOOPBACK, policy };
  hooks = new Hookladder({ ...options, secretKeys: SECRET_KEYS });
  receiver = await startReceiver();
  await liveThroughAll(new Hookladder({ ...options, secretKeys: { keys: newKey('unknown-to-workers') } }));
}, 180_000);
afterAll(async () => {
  await workers.shutdown();
  await connection.close();
  await server.stop();
  await receiver.close();
  await rm(folder, { recursive: true });
});

/** Every fate of a delivery and of a merchant; some stay open. */
async function liveThroughAll(withOtherKeys: Hookladder): Promise<void> {
  const headers = { 'X-Api-Key': CONFIDENTIAL.header };
  const endpoint = { url: receiver.url + CONFIDENTIAL.address, secret: CONFIDENTIAL.secret, headers };
  const merchantId = freshMerchant();
  const merchant = hooks.merchant(merchantId);

  // Held without an address; then the address, which changes.
  const held = await hooks.deliver({ merchantId, ...money });
  await untilState(held.delivery, 'held-no-endpoint');
  await merchant.setEndpoint({ ...endpoint, url: receiver.url + CONFIDENTIAL.addressBefore }, cause);
  await held.delivery.result();
  await merchant.setEndpoint(endpoint, cause);
  await merchant.rotateSecret(`${CONFIDENTIAL.secret}-next`, cause);
  await (await hooks.deliver({ merchantId, ...money })).delivery.result();

  // Retried, failed, delivered anew, tested.
  const answers = [500];
  receiver.answer(() => answers.pop() ?? 200);
  await (await hooks.deliver({ merchantId, ...money })).delivery.result();
  receiver.answer(() => ({ status: 404, body: CONFIDENTIAL.answer }));
  const failed = await hooks.deliver({ merchantId, ...kyc });
  await failed.delivery.result();
  const rejected = await hooks.deliver({ merchantId, ...money });
  await untilState(rejected.delivery, 'waiting-slow');
  await rejected.delivery.tryNow(cause);
  receiver.answer(() => ({ status: 302, headers: { location: `/${CONFIDENTIAL.redirect}` } }));
  const moved = await hooks.deliver({ merchantId, ...money });
  await untilState(moved.delivery, 'waiting-slow');
  await (await hooks.deliver({ merchantId, ...kyc, webhookId: 'moved' })).delivery.cancel(cause);
  receiver.answer(() => 200);
  await failed.delivery.redeliver(cause);
  await failed.delivery.result();
  await merchant.sendTest();
  await (await hooks.bulk({ command: 'redeliver', filter: { merchantId }, ...cause })).result();

  // No such host; an own fault; an open breaker, paused.
  const nowhere = freshMerchant();
  await hooks.merchant(nowhere).setEndpoint({ ...endpoint, url: `https://${CONFIDENTIAL.host}/` });
  for (let index = 0; index < 3; index++)
    await hooks.deliver({ merchantId: nowhere, ...money, webhookId: `w${index}` });
  await vi.waitFor(
    async () =>
      expect(await hooks.merchant(nowhere).breaker()).toMatchObject({ gate: { circuit: { state: 'open' } } }),
    { timeout: 60_000 },
  );
  await hooks.merchant(nowhere).pause(cause);
  const sealedElsewhere = freshMerchant();
  await withOtherKeys.merchant(sealedElsewhere).setEndpoint(endpoint);
  const fault = await hooks.deliver({ merchantId: sealedElsewhere, ...money });
  await untilState(fault.delivery, 'own-fault');

  // An entity that has continued as new, a delivery that was refused, one that somebody started in clear.
  const renewed = freshMerchant();
  await temporal.workflow.start('merchantBreaker', {
    workflowId: merchantWorkflowId(renewed),
    taskQueue: 'hookladder-merchants',
    args: [{ merchantId: renewed, signalsPerRun: 1 }],
  });
  await hooks.merchant(renewed).setEndpoint(endpoint, cause);
  await temporal.workflow
    .execute(DELIVERY_WORKFLOW, {
      workflowId: 'delivery:x:y',
      taskQueue: 'hookladder-deliveries',
      args: [{ ...money, merchantId: CONFIDENTIAL.cause.repeat(10) }],
    })
    .catch(() => undefined);
  const stranger = new Client({ connection });
  await stranger.workflow.start(DELIVERY_WORKFLOW, {
    workflowId: `delivery:${renewed}:in-clear`,
    taskQueue: 'hookladder-deliveries',
    args: [{ merchantId: renewed, webhookId: 'in-clear', type: 'x', body: `{"is":"${CONTROL}"}` }],
  });
}

async function untilState(delivery: { status(): Promise<{ state: string }> }, state: string): Promise<void> {
  await vi.waitFor(async () => expect(await delivery.status()).toMatchObject({ state }), { timeout: 60_000 });
}

/** Which confidential things bytes hold, plain or in base64, and whether they hold the control. */
function findIn(chunks: readonly Uint8Array[]): string[] {
  const found = Object.entries({ ...CONFIDENTIAL, control: CONTROL }).filter(([, needle]) =>
    chunks.some((chunk) => inWhateverForm(needle).some((form) => Buffer.from(chunk).includes(form))),
  );
  return found.map(([name]) => name);
}

/** In base64 a text looks in three ways, by where it begins. */
function inWhateverForm(needle: string): string[] {
  const shifted = [0, 1, 2].map((by) =>
    Buffer.from('x'.repeat(by) + needle)
      .toString('base64')
      .slice(4, -4),
  );
  return [needle, ...shifted];
}

/** All that the API tells: lists, descriptions, histories, of every run. */
async function everythingOfTheApi(): Promise<Uint8Array[]> {
  const { workflowService } = connection;
  const namespace = 'default';
  const dump: Uint8Array[] = [];
  const listed = await workflowService.listWorkflowExecutions({ namespace, pageSize: 1_000 });
  dump.push(ListWorkflowExecutionsResponse.encode(listed).finish());
  for (const { execution } of listed.executions) {
    if (!execution) continue;
    const description = await workflowService.describeWorkflowExecution({ namespace, execution });
    dump.push(DescribeWorkflowExecutionResponse.encode(description).finish());
    const history = await workflowService.getWorkflowExecutionHistory({ namespace, execution });
    expect(history.nextPageToken).toHaveLength(0);
    dump.push(GetWorkflowExecutionHistoryResponse.encode(history).finish());
  }
  expect(listed.executions.length).toBeGreaterThan(15);
  return dump;
}

describe('with a key, nothing confidential is in clear', () => {
  test('R72 in what Temporal tells of any workflow', async () => {
    expect(findIn(await everythingOfTheApi())).toEqual(['control']);
  });

  test('R72 in any table or file of the store', async () => {
    const rows = rowsOf(join(folder, 'temporal.db'));
    expect(rows.length).toBeGreaterThan(100);
    expect(findIn(rows)).toEqual(['control']);
    const files = (await readdir(folder)).filter((name) => name.startsWith('temporal.db'));
    expect(files).toContain('temporal.db');
    const contents = await Promise.all(files.map(async (name) => await readFile(join(folder, name))));
    expect(findIn(contents)).toEqual(['control']);
  });

  test('while clients with the key read all of it', async () => {
    const listed = await Array.fromAsync(hooks.list({}, { limit: 1_000 }));
    expect(listed.map(({ state }) => state)).toEqual(
      expect.arrayContaining(['delivered', 'failed', 'held-paused', 'waiting-slow', 'own-fault']),
    );
  });
});

/** Every value of every table, as bytes. */
function rowsOf(file: string): Uint8Array[] {
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
    return tables.flatMap(({ name }) =>
      database
        .prepare(`SELECT * FROM "${String(name)}"`)
        .all()
        .flatMap((row) => Object.values(row))
        .flatMap((value) => {
          if (typeof value === 'string') return Buffer.from(value);
          return value instanceof Uint8Array ? value : [];
        }),
    );
  } finally {
    database.close();
  }
}
