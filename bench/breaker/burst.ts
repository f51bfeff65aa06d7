import type { PolicyOverrides } from '../../src/policy/policy.ts';
import { largest, type Figure } from '../figures.ts';
import { until } from '../pace.ts';
import type { Scenario } from '../scenario.ts';
import { freshMerchant, onStand, SECRET, WEBHOOK, type Stand } from '../stand.ts';

const BURSTS = 5;
const WEBHOOKS = 300;
/** R41: five failures open it; so many attempts are under way at once by then; and ten for the way the news takes. */
const MOST_ATTEMPTS = 5 + 8 + 10;
/** The published numbers. */
const policy: PolicyOverrides = {};

/** Webhooks at once into an endpoint that answers 500: how many attempts reach it before all are held. */
export const burst: Scenario = async ({ log }) =>
  await onStand(policy, async (stand) => {
    const bursts = [];
    for (let round = 1; round <= BURSTS; round++) {
      const result = await oneBurst(stand);
      log(`burst ${round}: ${result.attempts} attempts, all held after ${result.heldAfterMs} ms`);
      bursts.push(result);
    }
    const attempts = bursts.map((each) => each.attempts);
    const figures: Figure[] = [
      {
        what: `attempts of ${WEBHOOKS} at once, most of ${BURSTS} bursts`,
        value: largest(attempts),
        unit: '',
        goal: { atMost: MOST_ATTEMPTS },
      },
      { what: 'the fewest', value: Math.min(...attempts), unit: '' },
      {
        what: 'first submitted → all held, longest',
        value: largest(bursts.map((each) => each.heldAfterMs)),
        unit: 'ms',
      },
    ];
    return figures;
  });

async function oneBurst({ hooks, receiver }: Stand): Promise<{ attempts: number; heldAfterMs: number }> {
  const merchantId = freshMerchant('burst');
  const client = hooks();
  const merchant = client.merchant(merchantId);
  await receiver.answer(merchantId, 500);
  await merchant.setEndpoint({ url: receiver.url(merchantId), secret: SECRET });
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: WEBHOOKS }, async (_, index) => {
      await client.deliver({ merchantId, webhookId: `w${index}`, ...WEBHOOK });
    }),
  );
  await until('all are held', async () => (await merchant.breaker())?.held === WEBHOOKS);
  const heldAfterMs = Math.round(performance.now() - startedAt);
  return { attempts: await receiver.count(merchantId), heldAfterMs };
}
