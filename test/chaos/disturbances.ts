import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from './random.ts';
import type { Disturbance, DisturbanceKind } from './record.ts';
import type { ChaosStand } from './stand.ts';

const KILLS: readonly DisturbanceKind[] = ['server', 'worker', 'workers', 'everything', 'worker', 'server'];
const BREAKS: readonly DisturbanceKind[] = ['cut', 'blackhole'];

/** What is done, and when: each at a moment of its own between 0 and 1. */
export interface PlannedDisturbance {
  readonly kind: DisturbanceKind;
  readonly progress: number;
}

/** So many kills, and a broken connection after every other; the server is killed if there are two kills or more. */
export function planDisturbances(random: Random, kills: number): PlannedDisturbance[] {
  const killed = Array.from({ length: kills }, (_, nth) => KILLS[nth % KILLS.length] ?? 'worker');
  const broken = Array.from({ length: Math.floor(kills / 2) }, (_, nth) => BREAKS[nth % 2] ?? 'cut');
  const all = random.shuffled([...killed, ...broken]);
  return all.map((kind, nth) => ({ kind, progress: (nth + random.between(0.3, 0.7)) / all.length }));
}

/** Does one, waits a moment, and brings back what it took. */
export async function disturb(
  stand: ChaosStand,
  kind: DisturbanceKind,
  random: Random,
): Promise<Disturbance> {
  const away = async (): Promise<void> => await sleep(random.between(200, 2_000));
  const from = Date.now();
  switch (kind) {
    case 'worker':
      await stand.killWorker(random.chance(0.5) ? 0 : 1, away);
      break;
    case 'workers':
      await stand.killWorkers();
      await away();
      await stand.startWorkers();
      break;
    case 'server':
      await stand.killServer();
      await away();
      await stand.startServer();
      break;
    case 'everything':
      await Promise.all([stand.killWorkers(), stand.killServer()]);
      await away();
      await stand.startServer();
      await stand.startWorkers();
      break;
    case 'cut':
      stand.proxy.cut();
      await away();
      stand.proxy.mend();
      break;
    case 'blackhole':
      stand.proxy.swallow();
      await sleep(random.between(2_000, 6_000));
      stand.proxy.mend();
      break;
  }
  return { kind, from, to: Date.now() };
}
