import { until } from '../pace.ts';
import type { Load } from '../processes/load.ts';
import { cpuOf, perUnit, untilNoneRuns, type Cpu, type Side, type Sides } from './sides.ts';

const ARRIVED_WITHIN_MS = 15 * 60_000;

/** Webhooks of one round. */
export interface RoundLoad extends Pick<Load, 'merchants' | 'prefix' | 'count' | 'pace' | 'locally'> {
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

/** Hands over webhooks to one side and waits until all have arrived and ended. */
export async function runRound(sides: Sides, side: Side, load: RoundLoad): Promise<Round> {
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
  const cpu = perUnit(before, await cpuOf(sides, side), count);
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
