import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { dataConverterOf, Hookladder, type DeliveryHandle } from '../../src/client.ts';
import type { LocalServer } from '../../src/local/server.ts';
import { patientRetry } from '../../src/patient-retry.ts';
import { versionOf } from '../../src/versioning.ts';
import { bundleWorkflows, type RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { startTestServer } from '../support/server.ts';
import { ENCRYPTION, freshMerchant, LOOPBACK, SECRET_KEYS, startTestWorkers } from '../support/stack.ts';
import {
  NO_BREAKER,
  readHistory,
  skipOn,
  startSkipping,
  untilStandsStill,
} from '../support/time-skipping.ts';

const MINUTE_MS = 60_000;
const PUBLISHED_STEPS = [900, 3_600, 14_400, 43_200, 86_400];
const CHANGED_STEPS = [300, 600, 1_200];
const patience = { timeout: 60_000, interval: 100 };

let server: LocalServer;
let connection: Connection;
let temporal: Client;
let hooks: Hookladder;
let receiver: Receiver;
let folder: string;
let merchantId: string;
let deploymentName: string;
const running = new Set<RunningWorkers>();

beforeAll(async () => {
  // Of its own: what is current here would be so for others too.
  server = await startTestServer(inject('temporalBinary'));
  connection = await Connection.connect({ address: server.address, interceptors: [patientRetry()] });
  temporal = new Client({ connection, dataConverter: dataConverterOf(ENCRYPTION) });
  hooks = new Hookladder({
    client: temporal,
    secretKeys: SECRET_KEYS,
    encryption: ENCRYPTION,
    allowHttp: true,
    allowedNetworks: LOOPBACK,
    policy: NO_BREAKER,
  });
  receiver = await startReceiver();
  folder = await mkdtemp(join(tmpdir(), 'hookladder-'));
});
afterAll(async () => {
  await connection.close();
  await server.stop();
  await receiver.close();
  await rm(folder, { recursive: true });
});
beforeEach(async () => {
  deploymentName = `hookladder-${randomUUID()}`;
  merchantId = freshMerchant();
  receiver.answer(() => 404);
});
afterEach(async () => {
  await Promise.all([...running].map(stop));
});

/** Workers of one version, or of none. */
async function start(buildId?: string, codePath?: string): Promise<RunningWorkers> {
  const workers = await startTestWorkers({
    connection: { address: server.address },
    ...(buildId === undefined ? {} : { versioning: { deploymentName, buildId } }),
    ...(codePath === undefined ? {} : { workflowBundle: { codePath } }),
  });
  running.add(workers);
  return workers;
}

async function stop(workers: RunningWorkers): Promise<void> {
  running.delete(workers);
  await workers.shutdown();
}

async function deployment(...args: string[]): Promise<void> {
  const where = ['--deployment-name', deploymentName, '--address', server.address, '--yes'];
  await promisify(execFile)(inject('temporalBinary'), ['worker', 'deployment', ...args, ...where]);
}

/** As docs/upgrades.md says; Temporal knows a version once its workers have asked for tasks. */
async function makeCurrent(buildId: string): Promise<void> {
  await vi.waitFor(async () => await deployment('set-current-version', '--build-id', buildId), patience);
}

async function goUnversioned(): Promise<void> {
  await deployment('set-current-version', '--unversioned', '--ignore-missing-task-queues');
}

/** The versions that have worked on a workflow, in order, each once; `undefined` for workers without one. */
async function versionsOf(workflowId: string): Promise<(string | undefined)[]> {
  const { events } = await temporal.workflow.getHandle(workflowId).fetchHistory();
  const tasks = (events ?? []).flatMap((event) => event.workflowTaskCompletedEventAttributes ?? []);
  const builds = tasks.map(({ deploymentVersion }) => deploymentVersion?.buildId ?? undefined);
  return builds.filter((build, index) => index === 0 || build !== builds[index - 1]);
}

async function withEndpoint(): Promise<void> {
  await hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
}

/** A webhook about money that was rejected, and is asleep in a step of the slow ladder at this age. */
async function asleep(untilAgeMs: number): Promise<DeliveryHandle> {
  const input = {
    merchantId,
    webhookId: randomUUID(),
    type: 'payment.status_changed',
    body: '{"status":"paid"}',
    policy: NO_BREAKER,
  };
  const delivery = await startSkipping(temporal, input, { untilAgeMs });
  await untilStandsStill(temporal, delivery);
  expect(await delivery.status()).toMatchObject({ state: 'waiting-slow' });
  return delivery;
}

async function stepsOf(delivery: DeliveryHandle): Promise<number[]> {
  const { ladderPauses } = await readHistory(temporal, delivery);
  return ladderPauses.map(({ seconds }) => seconds);
}

/** What a patch costs: its marker, and the search attribute that tells of it. */
async function patchEventsOf({ workflowId }: DeliveryHandle): Promise<number> {
  const { events } = await temporal.workflow.getHandle(workflowId).fetchHistory();
  const isOfPatch = (fields?: object | null) => fields != null && 'TemporalChangeVersion' in fields;
  return (events ?? []).filter(
    (event) =>
      event.markerRecordedEventAttributes ||
      isOfPatch(event.upsertWorkflowSearchAttributesEventAttributes?.searchAttributes?.indexedFields),
  ).length;
}

async function bundled(fixture: string): Promise<string> {
  const workflowsPath = fileURLToPath(new URL(`./fixtures/${fixture}.ts`, import.meta.url));
  const bundle = await bundleWorkflows({ workflowsPath });
  const path = join(folder, `${fixture}.js`);
  await writeFile(path, 'code' in bundle ? bundle.code : '');
  return path;
}

describe('versions of the worker', () => {
  test('a delivery that fell asleep under one goes on under the next once that is current, and so does its merchant', async () => {
    const a = await start('a');
    await makeCurrent('a');
    await withEndpoint();
    const delivery = await asleep(5 * MINUTE_MS);
    await start('b');
    const early = await asleep(5 * MINUTE_MS);
    expect(await versionsOf(early.workflowId)).toEqual(['a']);
    await makeCurrent('b');
    await stop(a);
    receiver.answer(() => 200);
    await skipOn(temporal, delivery);
    expect(await delivery.result()).toMatchObject({ state: 'delivered', attempts: 2 });
    expect(await stepsOf(delivery)).toEqual([900]);
    expect(await versionsOf(delivery.workflowId)).toEqual(['a', 'b']);
    await hooks.merchant(merchantId).pause({ by: 'ann' });
    expect(await versionsOf(`breaker:${merchantId}`)).toEqual(['a', 'b']);
    await goUnversioned();
  });

  test('workers without one go over to a version and back, with deliveries asleep', async () => {
    const unversioned = await start();
    await withEndpoint();
    const delivery = await asleep(5 * MINUTE_MS);
    const first = await start('0.1.0-a');
    // Not current: it gets nothing.
    expect(await versionsOf((await asleep(5 * MINUTE_MS)).workflowId)).toEqual([undefined]);
    await makeCurrent('0.1.0-a');
    await stop(unversioned);
    await delivery.tryNow();
    expect(await versionsOf(delivery.workflowId)).toEqual([undefined, '0.1.0-a']);
    await start();
    await goUnversioned();
    await stop(first);
    receiver.answer(() => 200);
    expect(await delivery.tryNow()).toMatchObject({ outcome: 'delivered' });
    expect(await versionsOf(delivery.workflowId)).toEqual([undefined, '0.1.0-a', undefined]);
  });

  test('are told apart by the package and the workflow code, unless they are named', async () => {
    const bundle = { codePath: inject('workflowBundlePath') };
    const version = await versionOf({ deploymentName }, bundle);
    expect(version).toEqual({
      deploymentName,
      buildId: expect.stringMatching(/^\d+\.\d+\.\d+-[0-9a-f]{12}$/),
    });
    expect(await versionOf({ deploymentName }, bundle)).toEqual(version);
    expect((await versionOf({ deploymentName }, { code: 'other' })).buildId).not.toBe(version.buildId);
    expect(await versionOf({ deploymentName, buildId: 'mine' }, bundle)).toMatchObject({ buildId: 'mine' });
  });
});

describe('a ladder that is changed under `patched()` while deliveries sleep', () => {
  test('R20 what slept goes on by its old ladder to the end, what comes after climbs the new one', async () => {
    const published = await start('published');
    await makeCurrent('published');
    await withEndpoint();
    const old = await asleep(30 * MINUTE_MS);
    await start('changed', await bundled('changed-ladder'));
    await makeCurrent('changed');
    await stop(published);
    const fresh = await asleep(10 * MINUTE_MS);
    for (const delivery of [old, fresh]) await skipOn(temporal, delivery);
    expect(await fresh.result()).toMatchObject({ reason: 'slow-ladder-exhausted', slowSteps: 3 });
    expect(await old.result()).toMatchObject({ reason: 'slow-ladder-exhausted', slowSteps: 5 });
    expect(await stepsOf(fresh)).toEqual(CHANGED_STEPS);
    expect(await stepsOf(old)).toEqual(PUBLISHED_STEPS);
    expect([await patchEventsOf(old), await patchEventsOf(fresh)]).toEqual([0, 2]);
    expect(await versionsOf(old.workflowId)).toEqual(['published', 'changed']);
    await goUnversioned();
  });

  test('is rolled back: what slept from before goes on, what was accepted since waits, and goes on once the change is back', async () => {
    const path = await bundled('changed-ladder');
    const published = await start('published');
    await makeCurrent('published');
    await withEndpoint();
    const old = await asleep(30 * MINUTE_MS);
    const changed = await start('changed', path);
    await makeCurrent('changed');
    const fresh = await asleep(7 * MINUTE_MS);
    await makeCurrent('published');
    await stop(changed);
    receiver.answer(() => 200);
    expect(await old.tryNow()).toMatchObject({ outcome: 'delivered' });
    await temporal.workflow.getHandle(fresh.workflowId).signal('tryNow');
    const task = async () =>
      (await temporal.workflow.getHandle(fresh.workflowId).describe()).raw.pendingWorkflowTask;
    await vi.waitFor(async () => expect((await task())?.attempt).toBeGreaterThanOrEqual(2), patience);
    await start('changed', path);
    await makeCurrent('changed');
    await stop(published);
    expect(await fresh.result()).toMatchObject({ state: 'delivered', attempts: 3 });
    await goUnversioned();
  });
});
