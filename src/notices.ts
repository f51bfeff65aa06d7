import { WorkflowExecutionAlreadyStartedError, type Client } from '@temporalio/client';
import type { NoticeHook } from './activities/notices.ts';
import { OPERATOR_MERCHANT } from './contract.ts';
import { startDelivery } from './deliveries.ts';

/**
 * The built-in hook: a webhook to the merchant that is reserved for operators, delivered like any other. Its id comes
 * from the event, so that one that is told again is not sent anew.
 */
export function operatorWebhook(client: Client): NoticeHook {
  return async (notice) => {
    const { id: webhookId, type } = notice;
    const body = JSON.stringify(notice);
    await startDelivery(client, { merchantId: OPERATOR_MERCHANT, webhookId, type, body }).catch(
      (error: unknown) => {
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      },
    );
  };
}
