import type { Client } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { merchantWorkflowId } from '../src/contract.ts';
import type { Report } from '../src/workflows/messages.ts';

/** What the runs of a merchant's entity have been told. */
export interface EntityHistory {
  /** Runs, joined by continue-as-new. */
  readonly runs: number;
  /** When each `report` came, Unix milliseconds, and with how many samples. */
  readonly reports: readonly { readonly at: number; readonly samples: number }[];
}

/** Reads the histories of all runs of a merchant's entity, the first one first. */
export async function readEntityHistory(client: Client, merchantId: string): Promise<EntityHistory> {
  const workflowId = merchantWorkflowId(merchantId);
  const { raw } = await client.workflow.getHandle(workflowId).describe();
  const { payloadConverter } = client.options.loadedDataConverter;
  const reports: EntityHistory['reports'][number][] = [];
  let runs = 0;
  let runId = raw.workflowExecutionInfo?.firstRunId;
  while (runId) {
    runs += 1;
    const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    runId = undefined;
    for (const event of events ?? []) {
      const { workflowExecutionSignaledEventAttributes: signal } = event;
      const payload = signal?.signalName === 'report' ? signal.input?.payloads?.[0] : undefined;
      if (payload) {
        const { samples } = payloadConverter.fromPayload<Report>(payload);
        reports.push({ at: tsToMs(event.eventTime), samples: samples.length });
      }
      runId ??= event.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? undefined;
    }
  }
  return { runs, reports };
}
