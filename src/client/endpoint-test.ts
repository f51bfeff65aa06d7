import { WorkflowFailedError } from '@temporalio/client';
import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/common';
import { DELIVERY_TASK_QUEUE, ENDPOINT_TEST_WORKFLOW, endpointTestWorkflowId } from '../contract.ts';
import { NoEndpoint, NoWorker, OwnFault } from '../errors.ts';
import { outcomeUnknown, type Verdict } from '../policy/verdicts.ts';
import type { EndpointTestInput } from '../workflows/endpoint-test.ts';
import { NO_LIMIT, type TemporalCalls } from './temporal-calls.ts';

/** Longer than one exchange and the tries of our own faults before it. */
const LIMIT_MS = 60_000;

/** Runs a test of an endpoint and waits for what came of it. */
export async function runEndpointTest(calls: TemporalCalls, input: EndpointTestInput): Promise<Verdict> {
  const { merchantId, webhookId } = input;
  const startedAt = Date.now();
  const handle = await calls.call(() =>
    calls.client.workflow.start<(input: EndpointTestInput) => Promise<Verdict>>(ENDPOINT_TEST_WORKFLOW, {
      workflowId: endpointTestWorkflowId(merchantId, webhookId),
      taskQueue: DELIVERY_TASK_QUEUE,
      args: [input],
      workflowExecutionTimeout: LIMIT_MS,
      staticSummary: `test event for merchant ${merchantId}`,
    }),
  );
  try {
    return await calls.call(() => handle.result(), NO_LIMIT);
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error;
    const { cause } = error;
    if (cause instanceof TimeoutFailure) throw new NoWorker(error);
    if (!(cause instanceof ActivityFailure)) throw error;
    if (cause.cause instanceof TimeoutFailure) return outcomeUnknown(Date.now() - startedAt);
    if (!(cause.cause instanceof ApplicationFailure)) throw error;
    if (cause.cause.type === 'NoEndpoint') throw new NoEndpoint(merchantId);
    throw new OwnFault(cause.cause.message);
  }
}
