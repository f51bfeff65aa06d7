/**
 * Receives webhooks with Express: PORT=8080 WEBHOOK_SECRET=… node express.ts
 * A second secret, after a comma, is accepted too while one is being replaced.
 */
import express from 'express';
import { expressHandler, RetryLater, type WebhookEvent } from '../../src/receiver/index.ts'; // 'hookladder/receiver' when installed

const app = express();

// Before express.json(): the signature is over the bytes as they came.
app.post(
  '/webhooks',
  expressHandler({
    secrets: () => (process.env['WEBHOOK_SECRET'] ?? '').split(',').filter(Boolean),
    handler: handle,
    // The default store is this process's memory. See fastify-sqlite.ts for one that survives.
  }),
);
app.use(express.json());

/** Runs once for each id; 2xx is answered when it has returned, 5xx if it throws. */
async function handle(event: WebhookEvent): Promise<void> {
  if (!event.known) return; // New types come without notice: accept them.
  switch (event.type) {
    case 'payment.status_changed': {
      const { payment_id, status } = event.data;
      if (typeof payment_id !== 'string') throw new Error('a payment event without payment_id');
      await markOrder(payment_id, status ?? 'unknown');
      return;
    }
    case 'kyc.status_changed':
      if (isMaintenance()) throw new RetryLater(60); // 503 with Retry-After
      return;
    default:
      return;
  }
}

async function markOrder(paymentId: string, status: string): Promise<void> {
  console.log(`order of ${paymentId} is now ${status}`);
}

function isMaintenance(): boolean {
  return process.env['MAINTENANCE'] === '1';
}

const server = app.listen(Number(process.env['PORT'] ?? 8080), '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object') console.log(`listening on http://127.0.0.1:${address?.port}/webhooks`);
});
