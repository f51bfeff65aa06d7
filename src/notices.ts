import { hostname } from 'node:os';
import { WorkflowExecutionAlreadyStartedError, type Client } from '@temporalio/client';
import type { EgressChange } from './activities/egress.ts';
import type { NoticeHook } from './activities/notices.ts';
import type { EgressNotice } from './activities/types.ts';
import { OPERATOR_MERCHANT } from './contract.ts';
import { startDelivery } from './deliveries.ts';

/** R8: what operators are told when a process suspects its own way out. */
export function egressNotice({ since, merchants, tries, failed }: EgressChange): EgressNotice {
  const at = new Date(since).toISOString();
  const worker = `${process.pid}@${hostname()}`;
  return {
    id: `egress-suspected.${worker.replaceAll(/[^A-Za-z0-9._-]/g, '-').slice(0, 60)}.${since}`,
    type: 'hookladder.egress_suspected',
    at,
    worker,
    merchants,
    tries,
    failed,
    remedy: `once it is mended: hookladder breaker reset --opened-since ${at}`,
  };
}

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
