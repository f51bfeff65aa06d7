import type { Client } from '@temporalio/client';
import { expect, onTestFinished, test } from 'vitest';
import { startHealthServer } from '../../src/health.ts';
import { WorkerHealth, type WatchedWorker } from '../../src/worker-health.ts';

const MINUTE = 60_000;
const SEARCH = { customAttributes: { WebhookMerchant: 2, WebhookEvent: 2, WebhookPayment: 2 } };
const ALL = {
  customAttributes: { ...SEARCH.customAttributes, WebhookMoney: 5, WebhookState: 2, WebhookBreaker: 2 },
};

/** Temporal as far as health asks it, and two workers of one process. */
function stand() {
  const temporal = { known: ALL as object, away: false, pollers: ['1@here'], asked: 0 };
  const answer = async <T>(value: T): Promise<T> => {
    temporal.asked += 1;
    if (temporal.away) throw new Error('14 UNAVAILABLE: no connection');
    return value;
  };
  const connection = {
    withDeadline: async (_: number, work: () => Promise<unknown>) => await work(),
    operatorService: { listSearchAttributes: () => answer(temporal.known) },
    workflowService: {
      describeTaskQueue: () => answer({ pollers: temporal.pollers.map((identity) => ({ identity })) }),
    },
  };
  const client = { options: { namespace: 'default' }, connection } as unknown as Client;
  const states = { deliveries: 'RUNNING', merchants: 'RUNNING' };
  const workers = (['deliveries', 'merchants'] as const).map((taskQueue): WatchedWorker => ({
    getState: () => states[taskQueue] as ReturnType<WatchedWorker['getState']>,
    options: { taskQueue, identity: '1@here' },
  }));
  return { temporal, states, health: new WorkerHealth(client, workers) };
}

test('is ready while Temporal sees both workers poll and knows the search attributes', async () => {
  const { temporal, states, health } = stand();
  expect(await health.ready(0)).toBeUndefined();
  temporal.pollers = ['1@elsewhere'];
  expect(await health.ready(6_000)).toBe(
    'Temporal is not polled for workflows of deliveries, activities of deliveries, workflows of merchants, activities of merchants',
  );
  temporal.pollers = ['1@here'];
  temporal.known = SEARCH;
  expect(await health.ready(12_000)).toContain('lacks search attributes');
  temporal.away = true;
  expect(await health.ready(18_000)).toBe('Temporal: 14 UNAVAILABLE: no connection');
  Object.assign(states, { merchants: 'DRAINING' });
  expect(await health.ready(24_000)).toBe('the worker of merchants is DRAINING');
});

test('asks Temporal every 5 s at most, however often it is asked', async () => {
  const { temporal, health } = stand();
  for (let now = 0; now < 10_000; now += 100) await Promise.all([health.ready(now), health.live(now)]);
  expect(temporal.asked).toBe(2 * 5);
});

test('is not live once a worker has failed, or once Temporal has missed its polls for 5 minutes', async () => {
  const { temporal, states, health } = stand();
  temporal.pollers = [];
  const liveAt = async (now: number): Promise<string | undefined> => {
    await health.ready(now);
    return await health.live(now);
  };
  expect(await liveAt(0)).toBeUndefined();
  expect(await liveAt(5 * MINUTE - 1)).toBeUndefined();
  expect(await liveAt(5 * MINUTE)).toContain('has not been polled');
  temporal.pollers = ['1@here'];
  expect(await liveAt(6 * MINUTE)).toBeUndefined();
  Object.assign(states, { deliveries: 'FAILED' });
  expect(await liveAt(7 * MINUTE)).toBe('the worker of deliveries has failed');
});

test('D7 stays live while it shuts down, however long that takes', async () => {
  const { temporal, states, health } = stand();
  temporal.pollers = [];
  await health.ready(0);
  Object.assign(states, { deliveries: 'DRAINING', merchants: 'STOPPED' });
  expect(await health.live(60 * MINUTE)).toBeUndefined();
});

test('stays live while Temporal is away, and counts anew when it is back', async () => {
  const { temporal, health } = stand();
  temporal.pollers = [];
  await health.ready(0);
  temporal.away = true;
  await health.ready(4 * MINUTE);
  expect(await health.live(60 * MINUTE)).toBeUndefined();
  temporal.away = false;
  await health.ready(61 * MINUTE);
  expect(await health.live(65 * MINUTE)).toBeUndefined();
});

test('is live and not ready while it starts', async () => {
  const server = await startHealthServer({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => server.close());
  const asked = async (path: string) => {
    const answer = await fetch(server.url + path);
    return [answer.status, (await answer.text()).trim()];
  };
  expect(await asked('/healthz')).toEqual([200, 'ok']);
  expect(await asked('/readyz')).toEqual([503, 'it is starting']);
  server.watch({
    live: () => 'it stands still',
    ready: async () => {
      throw new Error('no idea');
    },
  });
  expect(await asked('/healthz')).toEqual([503, 'it stands still']);
  expect(await asked('/readyz')).toEqual([503, 'no idea']);
});
