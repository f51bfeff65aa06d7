import { expect, vi } from 'vitest';
import type { Webhook } from '../../src/client.ts';
import type { Receiver } from './receiver.ts';
import type { TestClient } from './stack.ts';

/** Hands over webhooks `w0`, `w1`, … that move no money. */
export async function handOverMany(
  client: TestClient,
  merchantId: string,
  count: number,
  how: Partial<Webhook> = {},
): Promise<void> {
  const webhook = { merchantId, type: 'kyc.status_changed', body: '{}', ...how };
  const webhooks = Array.from({ length: count }, (_, nth) => ({ ...webhook, webhookId: `w${nth}` }));
  const outcomes = await client.hooks.deliverMany(webhooks);
  expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([]);
}

/** Hands over webhooks that fail at once: each is rejected the first time, and taken from then on. */
export async function failMany(
  client: TestClient,
  receiver: Receiver,
  merchantId: string,
  count: number,
): Promise<void> {
  const seen = new Set<string>();
  receiver.answer((_, { path, headers }) => {
    // Others' webhooks may have the same ids.
    const id = `${path} ${String(headers['x-webhook-id'])}`;
    if (seen.has(id)) return 200;
    seen.add(id);
    return 404;
  });
  await client.hooks.merchant(merchantId).setEndpoint({
    url: receiver.url + merchantId,
    secret: 'a secret of 20 bytes',
  });
  await handOverMany(client, merchantId, count);
  await untilListed(client, merchantId, 'ExecutionStatus = "Failed"', count);
}

/** Waits until visibility knows so many runs of deliveries of a merchant. */
export async function untilListed(
  client: TestClient,
  merchantId: string,
  condition: string,
  count: number,
): Promise<void> {
  const query = `WorkflowType = "delivery" AND WebhookMerchant = "${merchantId}" AND ${condition}`;
  await vi.waitFor(async () => expect((await client.temporal.workflow.count(query)).count).toBe(count), {
    timeout: 30_000 + count * 600,
    interval: 250,
  });
}
