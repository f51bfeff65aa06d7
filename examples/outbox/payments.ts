/** How a service writes its webhooks: in the transaction that changes what they tell of. */
import type { Pool } from 'pg';
import { addWebhook } from './outbox.ts';

/**
 * Changes the status of a payment and writes the webhook that says so: both or neither. The update locks the payment
 * until the commit, so its webhooks are in the outbox in the order in which its changes were committed.
 */
export async function setPaymentStatus(pool: Pool, paymentId: string, status: string): Promise<void> {
  const transaction = await pool.connect();
  try {
    await transaction.query('BEGIN');
    const { rows } = await transaction.query<{ merchant_id: string; amount: string; currency: string }>(
      'UPDATE payments SET status = $2 WHERE id = $1 RETURNING merchant_id, amount, currency',
      [paymentId, status],
    );
    for (const { merchant_id: merchantId, amount, currency } of rows) {
      await addWebhook(transaction, {
        merchantId,
        type: 'payment.status_changed',
        paymentId,
        body: JSON.stringify({ paymentId, status, amount, currency }),
      });
    }
    await transaction.query('COMMIT');
    transaction.release();
  } catch (error) {
    // Closes the connection, which rolls back.
    transaction.release(true);
    throw error;
  }
}
