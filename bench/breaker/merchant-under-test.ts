import type { Hookladder, MerchantHandle } from '../../src/client.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import { manyAtATime, until } from '../pace.ts';
import { freshMerchant, SECRET, WEBHOOK, type Stand } from '../stand.ts';

const SUBMITTED_AT_A_TIME = 20;
const OPENERS = 5;
const FILLED_WITHIN_MS = 20 * 60_000;

/** A merchant with an endpoint at the receiver. */
export interface MerchantUnderTest {
  readonly merchantId: string;
  readonly merchant: MerchantHandle;
}

/** Makes a merchant whose entity goes by the policy. */
export async function newMerchant(
  stand: Stand,
  name: string,
  policy: PolicyOverrides,
): Promise<MerchantUnderTest> {
  const merchantId = freshMerchant(name);
  const merchant = stand.hooks(policy).merchant(merchantId);
  await merchant.setEndpoint({ url: stand.receiver.url(merchantId), secret: SECRET });
  return { merchantId, merchant };
}

/** Hands over `count` webhooks as fast as it goes; their ids are the prefix and a number from 0. */
export async function submit(
  client: Hookladder,
  merchantId: string,
  prefix: string,
  count: number,
): Promise<void> {
  await manyAtATime(SUBMITTED_AT_A_TIME, count, async (index) => {
    await client.deliver({ merchantId, webhookId: `${prefix}${index}`, ...WEBHOOK });
  });
}

/** Opens the breaker with a few webhooks to the failing endpoint. */
export async function openBreaker(
  client: Hookladder,
  { merchantId, merchant }: MerchantUnderTest,
): Promise<number> {
  await submit(client, merchantId, 'opener', OPENERS);
  await until('the breaker opens', async () => (await merchant.breaker())?.gate.circuit.state === 'open');
  return OPENERS;
}

/** Resolves when the webhooks that were submitted last have been refused by the gate: those before them were too. */
export async function untilHeld(
  client: Hookladder,
  merchantId: string,
  prefix: string,
  count: number,
): Promise<void> {
  for (let index = Math.max(0, count - 2 * SUBMITTED_AT_A_TIME); index < count; index++) {
    const delivery = client.delivery(merchantId, `${prefix}${index}`);
    await until(`${prefix}${index} is held`, async () => (await delivery.status()).state.startsWith('held'), {
      withinMs: FILLED_WITHIN_MS,
    });
  }
}
