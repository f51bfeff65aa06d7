import type { Client } from '@temporalio/client';
import { SEARCH_ATTRIBUTES } from '../../src/contract.ts';

/** The search attributes of the product that a workflow has, by name. */
export async function searchAttributesOf(
  client: Client,
  workflowId: string,
): Promise<Record<string, unknown>> {
  const { typedSearchAttributes } = await client.workflow.getHandle(workflowId).describe();
  const ours = typedSearchAttributes.getAll().filter(({ key }) => Object.hasOwn(SEARCH_ATTRIBUTES, key.name));
  return Object.fromEntries(ours.map(({ key, value }) => [key.name, value]));
}

/** How many workflow tasks of a workflow failed: any is one that a stranger could block it with. */
export async function failedWorkflowTasks(client: Client, workflowId: string): Promise<number> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  return (events ?? []).filter((event) => event.workflowTaskFailedEventAttributes).length;
}
