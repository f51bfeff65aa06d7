import { Connection } from '@temporalio/client';
import { inject } from 'vitest';

let used: string | undefined;

/** The Temporal server of this file: files that run side by side have one each, as their workers share task queues. */
export function temporalAddress(): string {
  used = inject('temporalAddresses')[Number(process.env['VITEST_POOL_ID']) - 1];
  if (used === undefined) throw new Error('more files run side by side than there are servers');
  return used;
}

/** Ends what this file has left open on its server: the workers of the next one would go on with it. */
export async function terminateLeftovers(): Promise<void> {
  if (used === undefined) return;
  const namespace = 'default';
  const connection = await Connection.connect({ address: used });
  const { workflowService } = connection;
  // Not by a client, which would decode what was encrypted with keys that only the file knew.
  const query = 'ExecutionStatus = "Running"';
  const { executions } = await workflowService.listWorkflowExecutions({ namespace, query, pageSize: 1_000 });
  await Promise.allSettled(
    (executions ?? []).map(
      async ({ execution }) =>
        await workflowService.terminateWorkflowExecution({
          namespace,
          workflowExecution: { workflowId: execution?.workflowId ?? null },
        }),
    ),
  );
  await connection.close();
}
