import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { reserveFreePort } from '../../src/local/free-port.ts';
import { NO_PROMTOOL, promtool, runPromtool } from '../support/promtool.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { fetchMetrics, samplesOf, sumOf, valuesOf, type Sample } from '../support/scrape.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';

const ops = join(import.meta.dirname, '..', '..', 'ops');
const patience = { timeout: 60_000, interval: 200 };

let client: TestClient;
let receiver: Receiver;
/** Two workers beside each other, as in production: what they show together must be true. */
let workers: { readonly port: number; readonly process: WorkerProcess }[] = [];
/** The last that was seen of workers that have ended. */
const bygone: Sample[] = [];

beforeAll(async () => {
  // Holds and pauses are long enough to be published.
  client = await connectTestClient({ held: { firstAskMs: 600_000 }, fast: { firstPauseMs: 120_000 } });
  receiver = await startReceiver((_, { path }) => Number(path.split('/').at(-1)));
  await leaveSomethingToCount();
  workers = await Promise.all([startOne(), startOne()]);
}, 120_000);
afterAll(async () => {
  await Promise.all(workers.map(({ process }) => process.terminate()));
  await client.close();
  await receiver.close();
});

/** A delivery that is held and a breaker that is open, before the first census. */
async function leaveSomethingToCount(): Promise<void> {
  const own = await startTestWorkers();
  const failing = await merchantThatAnswers(500);
  await client.hooks.deliverMany(
    Array.from({ length: 5 }, () => ({ merchantId: failing, type: 'x.y', body: '{}' })),
  );
  await client.hooks.deliver({
    merchantId: freshMerchant(),
    type: 'refund.completed',
    body: '{}',
  });
  const held = { query: 'WebhookState = "held-no-endpoint" AND ExecutionStatus = "Running"' };
  const open = { query: 'WebhookBreaker = "open" AND ExecutionStatus = "Running"' };
  await vi.waitFor(async () => {
    for (const { query } of [held, open])
      expect((await client.temporal.workflow.count(query)).count).toBeGreaterThan(0);
  }, patience);
  await own.shutdown();
}

async function startOne() {
  const port = await reserveFreePort('127.0.0.1');
  const process = await startWorkerProcess({ HOOKLADDER_METRICS_ADDRESS: `127.0.0.1:${port}` });
  return { port, process };
}

async function merchantThatAnswers(status: number): Promise<string> {
  const merchantId = freshMerchant();
  const endpoint = { url: `${receiver.url}${merchantId}/${status}`, secret: 'a secret of 20 bytes' };
  await client.hooks.merchant(merchantId).setEndpoint(endpoint);
  return merchantId;
}

/** What all workers show, those that have ended included. */
async function scrapeAll(): Promise<Sample[]> {
  const texts = await Promise.all(workers.map(({ port }) => fetchMetrics(port)));
  return [...bygone, ...texts.flatMap(samplesOf)];
}

describe('metrics of several workers', () => {
  test('count each delivery and each attempt once, by verdict and end', async () => {
    const before = await scrapeAll();
    const [good, refusing, limiting] = await Promise.all([200, 404, 429].map(merchantThatAnswers));
    const deliver = async (merchantId = '', count = 1) => {
      const webhook = { merchantId, type: 'x.y', body: '{"card":"4111111111111111"}' };
      await client.hooks.deliverMany(Array.from({ length: count }, () => webhook));
    };
    await deliver(good, 12);
    await deliver(refusing, 3);
    await deliver(limiting, 1);
    const { delivery } = await client.hooks.deliver({ merchantId: freshMerchant(), type: 'x.y', body: '{}' });
    await vi.waitFor(
      async () => expect(await delivery.status()).toMatchObject({ state: 'held-no-endpoint' }),
      patience,
    );
    await delivery.cancel();
    await vi.waitFor(async () => {
      const after = await scrapeAll();
      const more = (name: string, labels = {}) => sumOf(after, name, labels) - sumOf(before, name, labels);
      expect({
        accepted: more('hookladder_deliveries_accepted_total', { money: 'false' }),
        delivered: more('hookladder_deliveries_ended_total', { state: 'delivered', money: 'false' }),
        failed: more('hookladder_deliveries_ended_total', { state: 'failed', reason: 'rejected' }),
        cancelled: more('hookladder_deliveries_ended_total', { state: 'cancelled' }),
        latencies: more('hookladder_delivery_latency_seconds_count'),
        answers: ['delivered', 'rejected', 'rate-limited'].map((verdict) =>
          more('hookladder_attempts_total', { verdict }),
        ),
        durations: more('hookladder_attempt_duration_seconds_count'),
      }).toEqual({
        accepted: 17,
        delivered: 12,
        failed: 3,
        cancelled: 1,
        latencies: 12,
        answers: [12, 3, 1],
        durations: 16,
      });
    }, patience);
  });

  test('tell of breakers that open, of trials and drains, and of reports', async () => {
    const before = await scrapeAll();
    const merchantId = await merchantThatAnswers(503);
    await client.hooks.deliverMany(
      Array.from({ length: 6 }, () => ({ merchantId, type: 'x.y', body: '{}' })),
    );
    const merchant = client.hooks.merchant(merchantId);
    await vi.waitFor(
      async () => expect(await merchant.breaker()).toMatchObject({ gate: { circuit: { state: 'open' } } }),
      patience,
    );
    await client.hooks.deliver({ merchantId, type: 'x.y', body: '{}' });
    await vi.waitFor(async () => expect((await merchant.breaker())?.held).toBeGreaterThan(0), patience);
    await merchant.resetBreaker();
    await vi.waitFor(async () => {
      const after = await scrapeAll();
      const more = (name: string, labels = {}) => sumOf(after, name, labels) - sumOf(before, name, labels);
      expect(more('hookladder_breaker_transitions_total', { event: 'opened' })).toBe(1);
      expect(more('hookladder_breaker_transitions_total', { event: 'reset' })).toBe(1);
      expect(more('hookladder_releases_total', { purpose: 'drain' })).toBeGreaterThan(0);
      expect(more('hookladder_report_batch_size_count')).toBeGreaterThan(0);
      expect(more('hookladder_report_batch_size_sum')).toBeGreaterThanOrEqual(5);
    }, patience);
  });

  test('have one worker count what is open; another goes on when it ends; a replay counts nothing anew', async () => {
    const counting = async () => {
      const shown = await Promise.all(
        workers.map(async ({ port }) => valuesOf(samplesOf(await fetchMetrics(port)), 'hookladder_breakers')),
      );
      return shown.map((values) => values.some((value) => !Number.isNaN(value)));
    };
    await vi.waitFor(async () => expect((await counting()).filter(Boolean)).toHaveLength(1), patience);
    const samples = (await scrapeAll()).filter(({ value }) => !Number.isNaN(value));
    expect(sumOf(samples, 'hookladder_open_deliveries', { state: 'held-no-endpoint' })).toBeGreaterThan(0);
    expect(sumOf(samples, 'hookladder_breakers', { state: 'open' })).toBeGreaterThan(0);
    expect(sumOf(samples, 'hookladder_oldest_undelivered_age_seconds', { money: 'true' })).toBeGreaterThan(0);

    // It waits in a pause of two minutes, in the cache of one of the workers.
    const merchantId = await merchantThatAnswers(500);
    const { delivery } = await client.hooks.deliver({ merchantId, type: 'x.y', body: '{}' });
    await vi.waitFor(
      async () => expect(await delivery.status()).toMatchObject({ state: 'waiting-fast' }),
      patience,
    );
    const accepted = sumOf(await scrapeAll(), 'hookladder_deliveries_accepted_total');
    const first = (await counting()).indexOf(true);
    const [ending] = workers.splice(first, 1);
    if (ending === undefined) throw new Error('nobody counts');
    bygone.push(...samplesOf(await fetchMetrics(ending.port)));
    expect(await ending.process.terminate()).toBe(0);
    await vi.waitFor(async () => expect(await counting()).toEqual([true]), patience);
    expect(await delivery.tryNow()).toMatchObject({ outcome: 'pause-goes-on' });
    await vi.waitFor(async () => {
      const after = await scrapeAll();
      expect(sumOf(after, 'hookladder_deliveries_accepted_total')).toBe(accepted);
      expect(sumOf(after, 'hookladder_attempts_total', { verdict: 'server-error' })).toBeGreaterThan(0);
    }, patience);
  });

  test('have no label that grows with merchants, webhooks or addresses', async () => {
    const labels = new Set((await scrapeAll()).flatMap((sample) => Object.keys(sample.labels)));
    expect([...labels].filter((label) => /merchant|webhook|host|address|url|path/.test(label))).toEqual([]);
  });

  test('show the SDK’s own in the same place', async () => {
    const names = new Set((await scrapeAll()).map(({ name }) => name));
    expect([...names]).toEqual(
      expect.arrayContaining([
        'temporal_worker_task_slots_available',
        'temporal_activity_schedule_to_start_latency_seconds_bucket',
        'temporal_request_total',
      ]),
    );
  });
});

test('counts by merchant where that is asked for', async () => {
  const port = await reserveFreePort('127.0.0.1');
  await Promise.all(workers.splice(0).map(({ process }) => process.terminate()));
  const process = await startWorkerProcess({
    HOOKLADDER_METRICS_ADDRESS: `127.0.0.1:${port}`,
    HOOKLADDER_METRICS_BY_MERCHANT: 'true',
  });
  workers.push({ port, process });
  const merchant = await merchantThatAnswers(200);
  await client.hooks.deliver({ merchantId: merchant, type: 'x.y', body: '{}' });
  await vi.waitFor(async () => {
    const samples = await scrapeAll();
    expect(sumOf(samples, 'hookladder_attempts_total', { merchant, verdict: 'delivered' })).toBe(1);
    expect(sumOf(samples, 'hookladder_deliveries_ended_total', { merchant, state: 'delivered' })).toBe(1);
  }, patience);
});

test('an address that is taken stops the worker, and is named', async () => {
  const [taken] = workers;
  const HOOKLADDER_METRICS_ADDRESS = `127.0.0.1:${taken?.port}`;
  await expect(startWorkerProcess({ HOOKLADDER_METRICS_ADDRESS })).rejects.toThrow(
    new RegExp(`HOOKLADDER_METRICS_ADDRESS 127\\.0\\.0\\.1 port ${taken?.port}: .*in use`),
  );
});

describe('ops', () => {
  test.skipIf(promtool === undefined)(`promtool accepts a scrape (${promtool ?? NO_PROMTOOL})`, async () => {
    const [{ port } = { port: 0 }] = workers;
    const { code, output } = await runPromtool(['check', 'metrics'], await fetchMetrics(port));
    expect([0, 3]).toContain(code);
    expect(output.split('\n').filter((line) => line.startsWith('hookladder_'))).toEqual([]);
  });

  test
    .skipIf(promtool === undefined)
    .each([
      [['check', 'rules', join(ops, 'alerts.yaml')]],
      [['test', 'rules', join(ops, 'alerts.test.yaml')]],
    ])(`promtool %s (${promtool ?? NO_PROMTOOL})`, async (args) => {
    const { code, output } = await runPromtool(args);
    expect(code, output).toBe(0);
  });

  test('rules and panels ask only for metrics that there are, by labels that they have', async () => {
    const known = [...bygone, ...(await scrapeAll())];
    const labelsOf = new Map<string, Set<string>>();
    for (const { name, labels } of known) {
      const seen = labelsOf.get(name) ?? new Set(['instance']);
      for (const label of Object.keys(labels)) seen.add(label);
      labelsOf.set(name, seen);
    }
    const declared = await namesOfTheSdk();
    const problems = [...(await expressions())].flatMap((expression) =>
      [...expression.matchAll(/\b((?:hookladder|temporal)_\w+)(?:\{([^}]*)\})?/g)].flatMap(
        ([, name = '', matchers = '']) => {
          const has = labelsOf.get(name);
          // What only happens on a failure of the SDK is not in a scrape.
          if (has === undefined) return declared(name) ? [] : [`${name} is not known: ${expression}`];
          return [...matchers.matchAll(/(\w+)\s*[=!]/g)]
            .map(([, label = '']) => label)
            .filter((label) => !has.has(label))
            .map((label) => `${name} has no label ${label}: ${expression}`);
        },
      ),
    );
    expect(problems).toEqual([]);
  });

  test('the dashboard is one that Grafana takes: panels with ids of their own, a data source to choose', async () => {
    const board = await dashboard();
    expect(board).toMatchObject({
      title: 'hookladder',
      uid: 'hookladder',
      schemaVersion: expect.any(Number),
    });
    expect(board.templating.list).toContainEqual(
      expect.objectContaining({ name: 'datasource', type: 'datasource', query: 'prometheus' }),
    );
    const { panels } = board;
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const { type, title, gridPos, targets } of panels) {
      expect(title).not.toBe('');
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      if (type !== 'row') expect(targets).not.toEqual([]);
      for (const target of targets ?? []) {
        expect(target.datasource).toEqual({ type: 'prometheus', uid: '${datasource}' });
        expect(target.refId).toMatch(/^[A-Z]$/);
      }
    }
  });
});

interface Dashboard {
  readonly templating: { readonly list: readonly unknown[] };
  readonly panels: readonly {
    readonly id: number;
    readonly type: string;
    readonly title: string;
    readonly gridPos: { readonly x: number; readonly w: number };
    readonly targets?: readonly {
      readonly expr: string;
      readonly refId: string;
      readonly datasource: unknown;
    }[];
  }[];
}

async function dashboard(): Promise<Dashboard> {
  return JSON.parse(await readFile(join(ops, 'grafana-dashboard.json'), 'utf8')) as Dashboard;
}

async function expressions(): Promise<Set<string>> {
  const panels = (await dashboard()).panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  const rules = await readFile(join(ops, 'alerts.yaml'), 'utf8');
  const alerts = [...rules.matchAll(/expr: (?:>-\n)?((?:.+\n)+?)\s+(?:for|labels):/g)].map(
    ([, expr]) => expr ?? '',
  );
  expect(alerts.length).toBe([...rules.matchAll(/alert: /g)].length);
  return new Set([...panels, ...alerts]);
}

/** Which metrics the SDK declares, by its source. */
async function namesOfTheSdk(): Promise<(name: string) => boolean> {
  const bridge = join(createRequire(import.meta.url).resolve('@temporalio/core-bridge/package.json'), '..');
  const files = [
    'sdk-core/src/telemetry/metrics.rs',
    'client/src/metrics.rs',
    'common/src/telemetry/metrics.rs',
  ];
  const sources = await Promise.all(
    files.map(async (file) => await readFile(join(bridge, 'sdk-core', 'crates', file), 'utf8')),
  );
  const declared = new Set(
    sources.flatMap((source) => [...source.matchAll(/"([a-z_]+)"/g)].map(([, name]) => name)),
  );
  return (name) => declared.has(name.replace(/^temporal_/, '').replace(/(_total|_seconds_bucket)$/, ''));
}
