import { setTimeout as sleep } from 'node:timers/promises';
import { GateReader } from '../../src/activities/gate-reader.ts';
import { Reporter } from '../../src/activities/reporter.ts';
import { reportToMerchant } from '../../src/merchants.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import { readEntityHistory, type EntityHistory } from '../entity-history.ts';
import type { Figure } from '../figures.ts';
import { polled } from '../pace.ts';
import type { Scenario } from '../scenario.ts';
import { freshMerchant, onStand, SECRET, type Stand } from '../stand.ts';

const SECONDS = 20;
const TICK_MS = 10;
/** One in ten fails: failures are what makes reports frequent, and so few do not open the breaker. */
const FAILED_ONE_IN = 10;

/** A window that holds all samples of a phase, so that they can be counted. */
const countable: PolicyOverrides = { breaker: { windowSamples: 25_000, windowMs: 3_600_000 } };

/** 1,000 outcomes a second of one merchant, told by one worker's reporter, then by four. */
export const reports: Scenario = async ({ log }) =>
  await onStand(countable, async (stand) => {
    const figures: Figure[] = [];
    for (const { reporters, each, policy } of [
      { reporters: 1, each: 1_000, policy: countable },
      { reporters: 4, each: 250, policy: countable },
      // So many would not fit into the payload that carries an entity from run to run: the window is as published.
      { reporters: 4, each: 1_000, policy: {} },
    ]) {
      log(`${reporters} reporters, ${each} outcomes/s each, ${SECONDS} s`);
      figures.push(...(await phase(stand, reporters, each, policy)));
    }
    return figures;
  });

async function phase(stand: Stand, count: number, each: number, policy: PolicyOverrides): Promise<Figure[]> {
  const merchantId = freshMerchant('reports');
  const merchant = stand.hooks(policy).merchant(merchantId);
  await merchant.setEndpoint({ url: stand.receiver.url(merchantId), secret: SECRET });
  const epoch = (await merchant.breaker())?.gate.epoch ?? 0;
  const reporters = Array.from({ length: count }, () => reporterLikeTheWorkers(stand, policy));
  const { told, refused } = await inject(reporters, merchantId, each, epoch);

  const counted = await countedByEntity(stand, merchantId, told, policy);
  // Signals that come while the entity is at work enter its history when it has done.
  const { runs, reports: signals } = await polled(
    async () => await readEntityHistory(stand.temporal, merchantId),
    (history) => samplesIn(history) === told,
    { withinMs: 30_000, everyMs: 1_000 },
  );
  const [first, last] = [signals[0]?.at ?? 0, signals.at(-1)?.at ?? 0];
  const perSecond = (signals.length - count) / ((last - first) / 1_000);
  const arrived = samplesIn({ reports: signals });
  const what = `${count} × ${each}/s`;
  const figures: Figure[] = [
    { what: `${what}: signals`, value: perSecond, unit: '/s', goal: { atMost: 5 * count } },
    {
      what: `${what}: samples told − in the histories`,
      value: told - arrived,
      unit: '',
      goal: { exactly: 0 },
    },
    { what: `${what}: reports refused`, value: refused, unit: '', goal: { exactly: 0 } },
    { what: `${what}: runs of the entity`, value: runs, unit: '' },
  ];
  if (counted !== undefined) {
    figures.push({
      what: `${what}: samples told − counted by the entity`,
      value: told - counted,
      unit: '',
      goal: { exactly: 0 },
    });
  }
  return figures;
}

/** `undefined` where the window is too small to count all. */
async function countedByEntity(
  { hooks }: Stand,
  merchantId: string,
  told: number,
  policy: PolicyOverrides,
): Promise<number | undefined> {
  if (policy !== countable) return undefined;
  return await polled(
    async () => (await hooks().merchant(merchantId).breaker())?.samples,
    (samples) => samples === told,
  );
}

function samplesIn({ reports: signals }: Pick<EntityHistory, 'reports'>): number {
  return signals.reduce((sum, { samples }) => sum + samples, 0);
}

async function inject(
  reporters: readonly Reporter[],
  merchantId: string,
  each: number,
  epoch: number,
): Promise<{ told: number; refused: number }> {
  const outcomes: Promise<void>[] = [];
  const startedAt = performance.now();
  for (let tick = 1; tick <= (SECONDS * 1_000) / TICK_MS; tick++) {
    await sleep(Math.max(0, startedAt + tick * TICK_MS - performance.now()));
    const due = Math.floor((tick * each * TICK_MS) / 1_000) * reporters.length;
    while (outcomes.length < due) {
      const index = outcomes.length;
      const reporter = reporters[index % reporters.length];
      if (reporter === undefined) break;
      const failed = Math.floor(index / reporters.length) % FAILED_ONE_IN === 0;
      outcomes.push(reporter.sample(merchantId, Date.now(), failed, epoch));
    }
  }
  await Promise.all(reporters.map(async (reporter) => await reporter.flush()));
  const settled = await Promise.allSettled(outcomes);
  return { told: outcomes.length, refused: settled.filter(({ status }) => status === 'rejected').length };
}

/** Wired as `startWorkers` does it. */
function reporterLikeTheWorkers({ patient }: Stand, policy: PolicyOverrides): Reporter {
  const gate = new GateReader(patient);
  return new Reporter(async (merchantId, report) => {
    const lastView = async () => await gate.readFresh(merchantId);
    await reportToMerchant(patient, merchantId, report, lastView, policy);
  });
}
