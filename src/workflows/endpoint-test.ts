import { ApplicationFailure, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { DeliveryActivities } from '../activities/types.ts';
import { checkId, endpointTestWorkflowId, TEST_EVENT } from '../contract.ts';
import { defaultPolicy } from '../policy/policy.ts';
import type { Verdict } from '../policy/verdicts.ts';

/** The input of a test of an endpoint. */
export interface EndpointTestInput {
  readonly merchantId: string;
  readonly webhookId: string;
}

/** Our own faults are tried again this often; then the operator is told. */
const TRIES = 3;

/**
 * One signed test event to a merchant's endpoint, and what came of it. It does not ask the gate, is no sample of the
 * breaker and no delivery: whoever tests wants to know now.
 */
export async function endpointTest(...inputs: unknown[]): Promise<Verdict> {
  const { merchantId, webhookId } = accept(inputs);
  const { attemptTimeoutMs, attemptOverheadMs } = defaultPolicy;
  const { sendTest } = proxyActivities<DeliveryActivities>({
    startToCloseTimeout: attemptTimeoutMs + attemptOverheadMs,
    retry: {
      initialInterval: '1 second',
      maximumAttempts: TRIES,
      nonRetryableErrorTypes: ['TemporalTimeout:StartToClose'],
    },
    priority: { fairnessKey: merchantId },
    summary: 'test event',
  });
  const createdAt = workflowInfo().startTime.toISOString();
  const body = JSON.stringify({ type: TEST_EVENT, merchant_id: merchantId, sent_at: createdAt });
  return await sendTest({ merchantId, webhookId, body, createdAt, timeoutMs: attemptTimeoutMs });
}

/** Anyone may have started it: an exception would block the workflow for good. */
function accept([input]: readonly unknown[]): EndpointTestInput {
  const { merchantId, webhookId } = (input ?? {}) as Partial<Record<keyof EndpointTestInput, unknown>>;
  const problems = [...checkId('merchantId', merchantId), ...checkId('webhookId', webhookId)];
  const { workflowId } = workflowInfo();
  if (problems.length === 0 && workflowId === endpointTestWorkflowId(String(merchantId), String(webhookId))) {
    return { merchantId: String(merchantId), webhookId: String(webhookId) };
  }
  throw ApplicationFailure.nonRetryable(
    'input must have a merchantId and a webhookId, and the workflow id must be "test:", both, and ":" between',
    'InvalidEndpointTestInput',
  );
}
