import {
  WorkflowExecutionAlreadyStartedError,
  type Client,
  type WorkflowExecutionDescription,
  type WorkflowExecutionStatusName,
} from '@temporalio/client';
import { defineSearchAttributeKey, type SearchAttributePair } from '@temporalio/common';
import {
  checkDeliveryInput,
  DELIVERY_TASK_QUEUE,
  DELIVERY_WORKFLOW,
  deliveryWorkflowId,
  isMoneyDelivery,
  REDELIVERY_MEMO,
  type DeliveryInput,
} from './contract.ts';
import { InvalidWebhook } from './errors.ts';
import type { Cause } from './policy/gate.ts';
import type { Redelivery } from './policy/interventions.ts';
import { decodePayloads } from './payloads.ts';
import { asRedelivery } from './workflows/message-checks.ts';

/** How a delivery stands that has this id already. */
export type Standing = 'open' | 'delivered' | 'failed' | 'cancelled';

/**
 * R70: starts a delivery that Temporal does not know yet.
 * @throws `WorkflowExecutionAlreadyStartedError` if it does.
 */
export async function startDelivery(client: Client, input: DeliveryInput): Promise<void> {
  await client.workflow.start(DELIVERY_WORKFLOW, {
    ...startOptions(input),
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
  });
}

/** The input that a run of a delivery was started with, from the first event of its history. */
export async function acceptedInput(
  client: Client,
  execution: { readonly workflowId: string; readonly runId: string },
): Promise<unknown> {
  const { history } = await client.workflowService.getWorkflowExecutionHistory({
    namespace: client.options.namespace,
    execution,
    maximumPageSize: 1,
  });
  const started = history?.events?.[0]?.workflowExecutionStartedEventAttributes;
  const [input] = await decodePayloads(client, started?.input?.payloads);
  return input;
}

/** R80: how a workflow's status reads for a delivery. */
export function standingOf(status: WorkflowExecutionStatusName): Standing {
  switch (status) {
    case 'COMPLETED':
      return 'delivered';
    case 'FAILED':
    case 'TIMED_OUT':
      return 'failed';
    case 'CANCELLED':
    case 'TERMINATED':
      return 'cancelled';
    default:
      return 'open';
  }
}

/** What came of starting a delivery anew. */
export type Restart =
  | { readonly outcome: 'started'; readonly runId: string }
  | { readonly outcome: 'open' }
  | { readonly outcome: 'needs-force'; readonly existing: 'delivered' | 'cancelled' }
  /** The run that was to be redelivered is not the newest any more. */
  | { readonly outcome: 'superseded'; readonly redelivery: Redelivery | undefined };

/** Which delivery to start anew, and for whom. */
export interface RestartRequest {
  readonly workflowId: string;
  /** R81: also if it was delivered or cancelled. */
  readonly force?: boolean;
  readonly cause: Cause;
  /** Only if this is still the newest run. */
  readonly runId?: string;
  /** The bulk command on whose behalf. */
  readonly bulk?: string;
  /** Only looks what would come of it; `started` stands for what would be. */
  readonly dryRun?: boolean;
}

/** Others may start it and it may end while we look; that often in a row is no chance any more. */
const LOOKS = 5;

/**
 * R81: starts a delivery anew that has ended, with the same id and body, as the history of its last run has them.
 * However many do so at once, one run is started.
 * @throws `WorkflowNotFoundError`; {@link InvalidWebhook} if its input was never a valid one.
 */
export async function restartDelivery(client: Client, request: RestartRequest): Promise<Restart> {
  const { workflowId, force = false } = request;
  for (let look = 1; ; look += 1) {
    const description = await client.workflow.getHandle(workflowId).describe();
    if (request.runId !== undefined && description.runId !== request.runId) {
      return { outcome: 'superseded', redelivery: asRedelivery(description.memo?.[REDELIVERY_MEMO]) };
    }
    const standing = standingOf(description.status.name);
    if (standing === 'open') return { outcome: 'open' };
    if (standing !== 'failed' && !force) return { outcome: 'needs-force', existing: standing };
    try {
      return { outcome: 'started', runId: await startAnew(client, description, request) };
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError) || look === LOOKS) throw error;
    }
  }
}

async function startAnew(
  client: Client,
  { workflowId, runId, startTime, memo }: WorkflowExecutionDescription,
  { force = false, cause, bulk, dryRun = false }: RestartRequest,
): Promise<string> {
  const checked = checkDeliveryInput(await acceptedInput(client, { workflowId, runId }));
  if (!checked.ok) throw new InvalidWebhook(checked.problems);
  if (dryRun) return runId;
  const redelivery: Redelivery = {
    of: runId,
    createdAt: asRedelivery(memo?.[REDELIVERY_MEMO])?.createdAt ?? startTime.toISOString(),
    ...cause,
    ...(bulk === undefined ? {} : { bulk }),
  };
  const handle = await client.workflow.start(DELIVERY_WORKFLOW, {
    ...startOptions(checked.input),
    // A run that was delivered since we looked is not repeated unless that is wanted.
    workflowIdReusePolicy: force ? 'ALLOW_DUPLICATE' : 'ALLOW_DUPLICATE_FAILED_ONLY',
    memo: { [REDELIVERY_MEMO]: redelivery },
  });
  return handle.firstExecutionRunId;
}

function startOptions(input: DeliveryInput) {
  const { merchantId, webhookId, type } = input;
  return {
    workflowId: deliveryWorkflowId(merchantId, webhookId),
    taskQueue: DELIVERY_TASK_QUEUE,
    args: [input],
    workflowIdConflictPolicy: 'FAIL',
    staticSummary: `${type} for merchant ${merchantId}`,
    typedSearchAttributes: searchAttributes(input),
    priority: { fairnessKey: merchantId },
  } as const;
}

function searchAttributes(input: DeliveryInput): SearchAttributePair[] {
  const { merchantId, type, paymentId } = input;
  return [
    { key: defineSearchAttributeKey('WebhookMerchant', 'KEYWORD'), value: merchantId },
    { key: defineSearchAttributeKey('WebhookEvent', 'KEYWORD'), value: type },
    { key: defineSearchAttributeKey('WebhookMoney', 'BOOL'), value: isMoneyDelivery(input) },
    ...(paymentId === undefined
      ? []
      : [{ key: defineSearchAttributeKey('WebhookPayment', 'KEYWORD'), value: paymentId }]),
  ];
}
