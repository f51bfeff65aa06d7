import { pMapIterable, pMapSkip } from 'p-map';
import { GATE_MEMO, MERCHANT_WORKFLOW, merchantWorkflowId } from '../contract.ts';
import type { GateView } from '../policy/gate.ts';
import { visibilityPage } from '../visibility.ts';
import { withoutSecrets } from '../workflows/merchant-words.ts';
import type { MerchantStatus } from '../workflows/messages.ts';
import type { TemporalCalls } from './temporal-calls.ts';

/** A merchant in a list, as its entity has published it: no worker is asked. */
export interface ListedMerchant {
  readonly merchantId: string;
  readonly gate: MerchantStatus['gate'];
}

const PAGE = 200;
/** Entities that are read at once. */
const READ_AT_ONCE = 8;

/** Lists merchants that something is known of. Visibility finds them; their state is read from themselves. */
export function listMerchants(calls: TemporalCalls, notClosed: boolean): AsyncIterable<ListedMerchant> {
  return pMapIterable(
    entities(calls, notClosed),
    async (merchantId) => {
      const handle = calls.client.workflow.getHandle(merchantWorkflowId(merchantId));
      const description = await calls.ifFound(() => handle.describe());
      const view = description?.memo?.[GATE_MEMO] as GateView | undefined;
      if (view === undefined) return pMapSkip;
      const isClosed = view.circuit.state === 'closed' && view.paused === undefined;
      return notClosed && isClosed ? pMapSkip : { merchantId, gate: withoutSecrets(view) };
    },
    { concurrency: READ_AT_ONCE, backpressure: READ_AT_ONCE },
  );
}

/** An entity that was terminated still has its memo, and goes on from it with the next message. */
async function* entities(calls: TemporalCalls, notClosed: boolean): AsyncGenerator<string> {
  const state = notClosed ? ' AND WebhookBreaker IN ("open", "half-open", "paused")' : '';
  const query = `WorkflowType = "${MERCHANT_WORKFLOW}" AND ExecutionStatus != "ContinuedAsNew"${state}`;
  const seen = new Set<string>();
  let from: string | undefined;
  do {
    const page = await calls.call(() => visibilityPage(calls.client, query, PAGE, from));
    for (const { workflowId } of page.found) {
      const merchantId = workflowId.slice(workflowId.indexOf(':') + 1);
      if (!seen.has(merchantId)) yield merchantId;
      seen.add(merchantId);
    }
    from = page.next;
  } while (from !== undefined);
}
