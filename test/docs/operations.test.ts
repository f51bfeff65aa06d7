import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { RunningWorkers } from '../../src/workers.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, startTestWorkers, type TestClient } from '../support/stack.ts';

const page = await readFile(join(import.meta.dirname, '..', '..', 'docs', 'operations.md'), 'utf8');
const queries = [...page.matchAll(/^\| (.+?) +\| `` (.+) `` +\|$/gm)].map(([, question, query]) => [
  question,
  query,
]);

let client: TestClient;
let workers: RunningWorkers;
let receiver: Receiver;
/** Takes the place of `shop-1`, and `pay_1` likewise. */
const [merchantId, failing] = [freshMerchant(), freshMerchant()];

/** Each question has an answer: a merchant that is paused, one whose breaker is open, webhooks of every fate. */
beforeAll(async () => {
  // Holds are published at once, since the first time that they ask by themselves is far.
  client = await connectTestClient({ held: { firstAskMs: 600_000 } });
  workers = await startTestWorkers();
  receiver = await startReceiver((_, { headers }) => (headers['x-webhook-created-at'] ? 404 : 200));
  const merchant = client.hooks.merchant(merchantId);
  await merchant.setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
  const kyc = { merchantId, type: 'kyc.status_changed', body: '{}' };
  const paid = {
    merchantId,
    type: 'payment.status_changed',
    body: '{"status":"paid"}',
    paymentId: merchantId,
  };
  const failed = await client.hooks.deliver({ ...kyc, webhookId: 'kyc_1' });
  await failed.delivery.result();
  const slow = await client.hooks.deliver(paid);
  await vi.waitFor(
    async () => expect(await slow.delivery.status()).toMatchObject({ state: 'waiting-slow' }),
    {
      timeout: 30_000,
    },
  );
  await merchant.sendTest();
  await (await client.hooks.bulk({ command: 'redeliver', filter: { merchantId }, dryRun: true })).result();
  await merchant.pause();
  await vi.waitFor(
    async () => {
      const held = await client.hooks.deliver(kyc);
      await vi.waitFor(async () =>
        expect(await held.delivery.status()).toMatchObject({ state: 'held-paused' }),
      );
    },
    { timeout: 30_000 },
  );
  receiver.answer(() => 500);
  await client.hooks.merchant(failing).setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
  await client.hooks.deliverMany(Array.from({ length: 5 }, () => ({ ...kyc, merchantId: failing })));
}, 120_000);
afterAll(async () => {
  for (const merchant of [merchantId, failing]) {
    await (await client.hooks.bulk({ command: 'cancel', filter: { merchantId: merchant } })).result();
  }
  await workers.shutdown();
  await client.close();
  await receiver.close();
});

test.each(queries)('the query for "%s" finds what it says', async (_, query = '') => {
  const ours = query.replaceAll('shop-1', merchantId).replaceAll('pay_1', merchantId);
  await vi.waitFor(
    async () => {
      const found = await Array.fromAsync(
        client.temporal.workflow.list({ query: ours }),
        ({ workflowId }) => workflowId,
      );
      const known = (id: string) => id.includes(merchantId) || id.includes(failing) || id.startsWith('bulk:');
      expect(found.filter(known)).not.toEqual([]);
    },
    { timeout: 30_000 },
  );
});

test('the page has the queries', () => {
  expect(queries.length).toBeGreaterThanOrEqual(13);
});
