import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../pace.ts';
import type { Load } from '../processes/load.ts';
import { cpuOf, perUnit, untilNoneRuns, type Cpu, type Side, type Sides } from './sides.ts';

/** A success of a healthy merchant is reported within 60 s: what that costs belongs to the delivery. */
const REPORTED_WITHIN_MS = 63_000;
const ARRIVED_WITHIN_MS = 15 * 60_000;

/** Webhooks of one round. */
export interface RoundLoad extends Pick<Load, 'merchants' | 'prefix' | 'count' | 'pace'> {
  /** Where the product's merchants receive; the bare engine posts beside it. */
  readonly path: string;
  /** A merchant that receives elsewhere and is not waited for. */
  readonly apart?: string;
}

/** What one round has shown. */
export interface Round {
  /** For a delivery. */
  readonly cpu: Cpu;
  /** From the first hand-over to the last arrival. */
  readonly perSecond: number;
  /** From hand-over to arrival, ms. */
  readonly latencies: readonly number[];
}

/**
 * Hands over webhooks to one side and waits until all have arrived and ended.
 * @param idle - what worker and server use in a second when nothing is to be done: it is taken off, and then the
 *   reports of the last successes are waited for too.
 */
export async function runRound(sides: Sides, side: Side, load: RoundLoad, idle?: Cpu): Promise<Round> {
  const { receiver } = sides;
  const path = side.name === 'product' ? load.path : `${load.path}-bare`;
  const arrivedBefore = await receiver.count(path);
  const before = await cpuOf(sides, side);
  const startedAt = performance.now();
  const submitted = await side.submit({ ...load, url: receiver.url(path) });
  const expected = submitted.filter(({ merchantId }) => merchantId !== load.apart);
  const count = expected.length;
  await until('all have arrived', async () => (await receiver.count(path)) >= arrivedBefore + count, {
    withinMs: ARRIVED_WITHIN_MS,
  });
  const perSecond = (count * 1_000) / (performance.now() - startedAt);
  if (load.apart === undefined) await untilNoneRuns(sides, side);
  if (idle !== undefined && side.name === 'product') await sleep(REPORTED_WITHIN_MS);
  const used = perUnit(before, await cpuOf(sides, side), count);
  const seconds = (performance.now() - startedAt) / 1_000;
  const cpu = idle === undefined ? used : withoutIdle(used, idle, seconds / count);
  const arrivals = (await receiver.arrivals(path)).slice(arrivedBefore);
  const at = new Map(arrivals.toReversed().map((arrival) => [arrival.webhookId, arrival.at]));
  const latencies = expected.map((each) => (at.get(each.webhookId) ?? 0) - each.at);
  return { cpu, perSecond, latencies };
}

/** For the log. */
export function cpuInWords({ sum, worker, server }: Cpu): string {
  const parts = server === undefined ? '' : ` (worker ${worker.toFixed(1)}, server ${server.toFixed(1)})`;
  return `${sum.toFixed(1)} ms CPU per delivery${parts}`;
}

function withoutIdle(used: Cpu, idle: Cpu, seconds: number): Cpu {
  const worker = used.worker - idle.worker * seconds;
  if (used.server === undefined || idle.server === undefined) return { worker, sum: worker };
  const server = used.server - idle.server * seconds;
  return { worker, server, sum: worker + server };
}
