import type { Client } from '@temporalio/client';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import type { Standing } from './deliveries.ts';

/** A run of a workflow as visibility lists it: a little late, and without what was not published. */
export interface Found {
  readonly workflowId: string;
  readonly runId: string;
  readonly standing: Standing;
  /** When the run began, Unix milliseconds. */
  readonly startedAt: number;
  /** The search attributes that are set, by name. */
  readonly attributes: Readonly<Record<string, unknown>>;
}

export interface VisibilityPage {
  readonly found: readonly Found[];
  /** Where the next page begins; absent after the last. */
  readonly next?: string;
}

/** `temporal.api.enums.v1.WorkflowExecutionStatus` on the wire; what is not listed is open. */
const standings: Readonly<Record<number, Standing>> = {
  2: 'delivered',
  3: 'failed',
  4: 'cancelled',
  5: 'cancelled',
  7: 'failed',
};

/** One page of what visibility lists for a query, the newest first. */
export async function visibilityPage(
  client: Client,
  query: string,
  pageSize: number,
  from?: string,
): Promise<VisibilityPage> {
  const { executions, nextPageToken } = await client.workflowService.listWorkflowExecutions({
    namespace: client.options.namespace,
    query,
    pageSize,
    ...(from === undefined ? {} : { nextPageToken: Buffer.from(from, 'base64') }),
  });
  const found = executions.map(({ execution, status, startTime, searchAttributes }) => ({
    workflowId: execution?.workflowId ?? '',
    runId: execution?.runId ?? '',
    standing: standings[status ?? 0] ?? 'open',
    startedAt: Number(startTime?.seconds ?? 0) * 1_000 + Math.floor((startTime?.nanos ?? 0) / 1_000_000),
    attributes: decoded(searchAttributes?.indexedFields),
  }));
  const more = nextPageToken !== undefined && nextPageToken.length > 0;
  return { found, ...(more ? { next: Buffer.from(nextPageToken).toString('base64') } : {}) };
}

/** Search attributes are never encrypted. */
function decoded(fields: Record<string, Payload> | null | undefined): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields ?? {}).map(([name, payload]) => [
      name,
      defaultPayloadConverter.fromPayload(payload),
    ]),
  );
}
