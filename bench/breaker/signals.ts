import { reportToMerchant } from '../../src/merchants.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import type { Report } from '../../src/workflows/messages.ts';
import { readEntityHistory } from '../entity-history.ts';
import { largest, percentile, type Figure } from '../figures.ts';
import { paced, polled } from '../pace.ts';
import type { Scenario } from '../scenario.ts';
import { onStand, type Stand } from '../stand.ts';
import { newMerchant, type MerchantUnderTest } from './merchant-under-test.ts';

const LONGEST_WAIT_MS = 3_000;
/** A window that holds every sample, so that they can be counted. */
const policy: PolicyOverrides = { breaker: { windowSamples: 20_000, windowMs: 3_600_000 } };

/** B3: reports come at a steady rate, across many continue-as-news, whether or not those before were taken in. */
export const signals: Scenario = async ({ full, log }) =>
  await onStand(policy, async (stand) => {
    const figures: Figure[] = [];
    for (const { perSecond, count } of full
      ? [
          { perSecond: 60, count: 10_500 },
          { perSecond: 5, count: 900 },
          { perSecond: 20, count: 3_600 },
        ]
      : [
          { perSecond: 60, count: 1_500 },
          { perSecond: 5, count: 100 },
          { perSecond: 20, count: 400 },
        ]) {
      log(`${count} signals at ${perSecond}/s`);
      figures.push(...(await phase(stand, perSecond, count)));
    }
    figures.push({
      what: 'workers alive at the end',
      value: stand.worker.isAlive() ? 1 : 0,
      unit: '',
      goal: { exactly: 1 },
    });
    return figures;
  });

async function phase(stand: Stand, perSecond: number, count: number): Promise<Figure[]> {
  const under = await newMerchant(stand, 'signals', policy);
  const { merchantId, merchant } = under;
  const send = await senderTo(stand, under);
  const sent = await paced(perSecond, count, async (index) => {
    const startedAt = performance.now();
    await send(index);
    return performance.now() - startedAt;
  });
  const waited = sent.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  const counted = await polled(
    async () => (await merchant.breaker())?.samples ?? 0,
    (samples) => samples === count,
  );
  const { runs } = await readEntityHistory(stand.temporal, merchantId);
  const what = `${count} at ${perSecond}/s`;
  return [
    { what: `${what}: errors`, value: count - waited.length, unit: '', goal: { exactly: 0 } },
    { what: `${what}: sender waits, p50`, value: percentile(waited, 0.5), unit: 'ms' },
    { what: `${what}: sender waits, p99`, value: percentile(waited, 0.99), unit: 'ms' },
    {
      what: `${what}: sender waits, longest`,
      value: largest(waited),
      unit: 'ms',
      goal: { atMost: LONGEST_WAIT_MS },
    },
    { what: `${what}: samples in − counted`, value: count - counted, unit: '', goal: { exactly: 0 } },
    { what: `${what}: runs of the entity`, value: runs, unit: '' },
  ];
}

/** Each report is of a reporter of its own: real ones wait for their report before, and would slow down. */
async function senderTo(
  { patient }: Stand,
  { merchantId, merchant }: MerchantUnderTest,
): Promise<(index: number) => Promise<void>> {
  const gate = (await merchant.breaker())?.gate;
  return async (index) => {
    const report: Report = {
      reporter: `r${index}`,
      sequence: 1,
      samples: [[Date.now(), index % 10 === 0 ? 1 : 0, gate?.epoch ?? 0]],
      trials: [],
      slowDowns: [],
      holds: [],
      left: [],
      unusedPermits: [],
    };
    await reportToMerchant(patient, merchantId, report, async () => undefined, policy);
  };
}
