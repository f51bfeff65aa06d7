import { deliveryWorkflowId } from '../../src/contract.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import { percentile, type Figure } from '../figures.ts';
import { manyAtATime, paced, until } from '../pace.ts';
import type { Scenario } from '../scenario.ts';
import { freshMerchant, onStand, SECRET, WEBHOOK, type Stand } from '../stand.ts';
import { newMerchant, submit } from './merchant-under-test.ts';

const HEALTHY_MERCHANTS = 50;
const SATURATING = 400;
/** Each side is the median of so many windows: on a shared machine one alone says little. */
const WINDOWS = 3;
const SECONDS = 15;
const LAST_LOOKED_AT = 50;
const TAKEN_UP_WITHIN_MS = 10 * 60_000;
/** All healthy merchants receive at one path. */
const HEALTHY_PATH = 'healthy';
/** The breaker of the hanging merchant is out of reach. */
const policy: PolicyOverrides = { breaker: { leastSamples: 1_000_000 } };

/** B5: what healthy merchants notice of one whose endpoint hangs. */
export const hanging: Scenario = async ({ full, log }) =>
  await onStand(policy, async (stand) => {
    const deliveries = full ? 2_000 : 500;
    const client = stand.hooks();
    const merchants = Array.from({ length: HEALTHY_MERCHANTS }, () => freshMerchant('healthy'));
    await manyAtATime(10, merchants.length, async (index) => {
      const merchant = client.merchant(merchants[index] ?? '');
      await merchant.setEndpoint({ url: stand.receiver.url(HEALTHY_PATH), secret: SECRET });
    });
    await capacity(stand, merchants, 'warm-up');
    const most = await capacity(stand, merchants, 'capacity');
    const perSecond = most / 2;
    log(`capacity ${most.toFixed(1)}/s`);
    const quiet = await medians(stand, merchants, 'quiet', perSecond);
    log(`p95 without a hanging merchant: ${quiet.p95} ms`);

    const { merchantId } = await newMerchant(stand, 'hanging', policy);
    await stand.receiver.answer(merchantId, 'hang');
    await submit(client, merchantId, 'h', deliveries);
    const settling = await latencies(stand, merchants, 'settling', perSecond);
    await untilTakenUp(stand, merchantId, deliveries);
    log('each hanging delivery has been taken up once');
    const beside = await medians(stand, merchants, 'beside', perSecond);
    log(`p95 beside it: ${beside.p95} ms`);
    const figures: Figure[] = [
      { what: 'capacity', value: most, unit: '/s' },
      { what: 'paced at', value: perSecond, unit: '/s' },
      { what: 'healthy p50 without it', value: quiet.p50, unit: 'ms' },
      { what: 'healthy p95 without it', value: quiet.p95, unit: 'ms' },
      { what: `healthy p50 beside ${deliveries} hanging`, value: beside.p50, unit: 'ms' },
      { what: `healthy p95 beside ${deliveries} hanging`, value: beside.p95, unit: 'ms' },
      {
        what: `healthy p95 while ${deliveries} hanging are first taken up`,
        value: percentile(settling, 0.95),
        unit: 'ms',
      },
      {
        what: `p95 beside ${deliveries} hanging ÷ p95 without`,
        value: beside.p95 / quiet.p95,
        unit: '×',
        goal: { atMost: 3 },
      },
    ];
    return figures;
  });

/** Deliveries a second when they are handed over as fast as it goes. */
async function capacity(stand: Stand, merchants: readonly string[], prefix: string): Promise<number> {
  const before = await stand.receiver.count(HEALTHY_PATH);
  const startedAt = performance.now();
  await manyAtATime(40, SATURATING, async (index) => await deliver(stand, merchants, prefix, index));
  await until(
    'all have arrived',
    async () => (await stand.receiver.count(HEALTHY_PATH)) >= before + SATURATING,
  );
  return (SATURATING * 1_000) / (performance.now() - startedAt);
}

async function medians(
  stand: Stand,
  merchants: readonly string[],
  prefix: string,
  perSecond: number,
): Promise<{ p50: number; p95: number }> {
  const windows: number[][] = [];
  for (let window = 1; window <= WINDOWS; window++) {
    windows.push(await latencies(stand, merchants, `${prefix}${window}-`, perSecond));
  }
  const median = (share: number) =>
    percentile(
      windows.map((window) => percentile(window, share)),
      0.5,
    );
  return { p50: median(0.5), p95: median(0.95) };
}

/** Milliseconds from submit to arrival. */
async function latencies(
  stand: Stand,
  merchants: readonly string[],
  prefix: string,
  perSecond: number,
): Promise<number[]> {
  const submittedAt = new Map<string, number>();
  await paced(perSecond, Math.round(perSecond * SECONDS), async (index) => {
    submittedAt.set(`${prefix}${index}`, Date.now());
    await deliver(stand, merchants, prefix, index);
  });
  const seen = async () =>
    (await stand.receiver.arrivals(HEALTHY_PATH)).filter(({ webhookId }) => submittedAt.has(webhookId));
  await until('all have arrived', async () => (await seen()).length >= submittedAt.size);
  return (await seen()).map(({ webhookId, at }) => at - (submittedAt.get(webhookId) ?? 0));
}

/** Until then their mere number is what the worker is busy with, whatever their endpoint does. */
async function untilTakenUp({ temporal }: Stand, merchantId: string, count: number): Promise<void> {
  for (let index = count - LAST_LOOKED_AT; index < count; index++) {
    const handle = temporal.workflow.getHandle(deliveryWorkflowId(merchantId, `h${index}`));
    await until(
      'each hanging delivery has been taken up',
      async () =>
        (await handle.describe()).raw.pendingActivities?.some(({ attempt }) => (attempt ?? 0) > 1) === true,
      { withinMs: TAKEN_UP_WITHIN_MS },
    );
  }
}

async function deliver(
  stand: Stand,
  merchants: readonly string[],
  prefix: string,
  index: number,
): Promise<void> {
  const merchantId = merchants[index % merchants.length] ?? '';
  await stand.hooks().deliver({ merchantId, webhookId: `${prefix}${index}`, ...WEBHOOK });
}
