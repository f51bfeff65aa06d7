/**
 * How much memory a worker needs for a delivery that it keeps in its cache: held deliveries are handed over, and the growth of
 * the process is divided by their number. Garbage counts too, so that it is an upper bound. For docs/deploy.md.
 * Usage: node scripts/cached-workflows.ts [deliveries in a round, 1000 by default]
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { destination } from 'pino';
import { Hookladder } from '../src/client.ts';
import { newKey } from '../src/key-list.ts';
import { startBenchServer, temporalOf } from '../bench/temporal.ts';
import { installTelemetry } from '../src/telemetry.ts';
import { startWorkers } from '../src/workers.ts';

const ROUNDS = 3;
const count = Number(process.argv[2] ?? 1_000);
const body = JSON.stringify({ pad: 'x'.repeat(880) });
const secretKeys = { keys: newKey('k1') };
const encryption = { keys: newKey('k1') };

installTelemetry({ logLevel: 'warn', logTo: destination(2) });
const server = await startBenchServer();
Object.assign(process.env, server.environment);
const workers = await startWorkers({
  ...temporalOf(server.environment),
  secretKeys,
  encryption,
  maxCachedWorkflows: count * (ROUNDS + 2),
});
// An entity that takes in a thousand holds answers late.
const hooks = new Hookladder({ secretKeys, encryption, connectTimeoutMs: 120_000 });

const megabytes = (): number => process.memoryUsage().rss / 2 ** 20;
/** Without an endpoint all are held. */
async function handOver(merchantId: string, deliveries: number): Promise<void> {
  const webhooks = Array.from({ length: deliveries }, () => ({ merchantId, type: 'x.y', body }));
  await hooks.deliverMany(webhooks);
  const held = async () => (await hooks.merchant(merchantId).breaker())?.held;
  while ((await held()) !== deliveries) await sleep(1_000);
}

await handOver('warm-up', 200);
for (let round = 1; round <= ROUNDS; round += 1) {
  const before = megabytes();
  await handOver(`round-${round}`, count);
  const grown = megabytes() - before;
  console.log(
    `round ${round}: ${count} held deliveries of 0.9 KB, ${grown.toFixed(0)} MiB, ${(grown / count).toFixed(2)} MiB each`,
  );
}
await hooks.close();
await workers.shutdown();
await server.stop();
process.exit(0);
