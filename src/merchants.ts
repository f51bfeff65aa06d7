import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import type { SignalDefinition } from '@temporalio/common';
import { defineSearchAttributeKey } from '@temporalio/common';
import { GATE_MEMO, MERCHANT_TASK_QUEUE, MERCHANT_WORKFLOW, merchantWorkflowId } from './contract.ts';
import type { GateView } from './policy/gate.ts';
import { policyWith, type PolicyOverrides } from './policy/policy.ts';
import type { MerchantInput } from './workflows/merchant-breaker.ts';
import { MerchantState, recovered } from './workflows/merchant-state.ts';
import { breakerState } from './workflows/merchant-words.ts';
import { reportSignal, type Report } from './workflows/messages.ts';

/**
 * Signals a merchant's entity, and starts it if there is none.
 * @param lost - the view last seen: if the entity was terminated or lost meanwhile, the new one goes on from it (R52).
 */
export async function signalMerchant<Message>(
  client: Client,
  merchantId: string,
  signal: SignalDefinition<[Message]>,
  message: Message,
  { lost, policy }: { readonly lost: GateView | undefined; readonly policy: PolicyOverrides | undefined },
): Promise<void> {
  const input: MerchantInput = {
    merchantId,
    ...(lost === undefined ? {} : { lost }),
    ...(policy === undefined ? {} : { policy }),
  };
  const view = new MerchantState(policyWith(policy), lost && recovered(lost, Date.now())).view();
  await client.workflow.signalWithStart<(input: MerchantInput) => Promise<void>, [Message]>(
    MERCHANT_WORKFLOW,
    {
      workflowId: merchantWorkflowId(merchantId),
      taskQueue: MERCHANT_TASK_QUEUE,
      args: [input],
      signal,
      signalArgs: [message],
      memo: { [GATE_MEMO]: view },
      staticSummary: `merchant ${merchantId}: endpoint, breaker and waiting room`,
      typedSearchAttributes: [
        { key: defineSearchAttributeKey('WebhookMerchant', 'KEYWORD'), value: merchantId },
        { key: defineSearchAttributeKey('WebhookBreaker', 'KEYWORD'), value: breakerState(view) },
      ],
    },
  );
}

/**
 * Reports to a merchant's entity. It is there almost always, so that a bare signal will do, which costs least.
 * @param lastView - asked if it is not: what a new entity goes on from (R52).
 */
export async function reportToMerchant(
  client: Client,
  merchantId: string,
  report: Report,
  lastView: () => Promise<GateView | undefined>,
  policy?: PolicyOverrides,
): Promise<void> {
  try {
    await client.workflow.getHandle(merchantWorkflowId(merchantId)).signal(reportSignal, report);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    await signalMerchant(client, merchantId, reportSignal, report, { lost: await lastView(), policy });
  }
}
