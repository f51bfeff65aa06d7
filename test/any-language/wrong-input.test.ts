import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure, type Payload } from '@temporalio/common';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DELIVERY_TASK_QUEUE, DELIVERY_WORKFLOW, MERCHANT_TASK_QUEUE } from '../../src/contract.ts';
import { IdConflict } from '../../src/errors.ts';
import type { RunningWorkers } from '../../src/workers.ts';
import { connectTestClient, startTestWorkers, type TestClient } from '../support/stack.ts';
import { json, payload } from './payloads.ts';
import { failedWorkflowTasks } from './started-delivery.ts';

const CLOSES_WITHIN_MS = 20_000;

let client: TestClient;
let workers: RunningWorkers;

beforeAll(async () => {
  client = await connectTestClient();
  workers = await startTestWorkers();
});
afterAll(async () => {
  await workers.shutdown();
  await client.close();
});

/** An input that would be accepted, but for what a test changes in it. */
function input(webhookId: string, changed: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    merchantId: 'strangers',
    webhookId,
    type: 'kyc.status_changed',
    body: '{"status":"done"}',
    ...changed,
  };
}

/** Starts a delivery as a stranger might: with arguments made by hand. */
async function startByHand(
  webhookId: string,
  payloads: readonly Payload[],
  taskQueue = DELIVERY_TASK_QUEUE,
): Promise<string> {
  const workflowId = `delivery:strangers:${webhookId}`;
  await client.temporal.workflowService.startWorkflowExecution({
    namespace: client.temporal.options.namespace,
    requestId: randomUUID(),
    workflowId,
    workflowType: { name: DELIVERY_WORKFLOW },
    taskQueue: { name: taskQueue },
    input: { payloads: [...payloads] },
  });
  return workflowId;
}

/** Why a workflow failed; rejects if it does not close in time. */
async function failureOf(workflowId: string): Promise<{ type: string | null | undefined; message: string }> {
  const { workflow, connection } = client.temporal;
  const ended: unknown = await connection
    .withDeadline(Date.now() + CLOSES_WITHIN_MS, () => workflow.getHandle(workflowId).result())
    .catch((error: unknown) => error);
  if (!(ended instanceof WorkflowFailedError) || !(ended.cause instanceof ApplicationFailure)) {
    throw new Error(`${workflowId} did not fail as it should`, { cause: ended });
  }
  return { type: ended.cause.type, message: ended.cause.message };
}

const unreadable = (encoding: string) =>
  `input cannot be read (its payload has ${encoding}): send one JSON object, encoded as "json/plain"`;

const refused: readonly [what: string, payloads: (webhookId: string) => Payload[], problem: string][] = [
  ['no argument', () => [], 'input is missing'],
  [
    'two arguments',
    (id) => [json(input(id)), json('and more')],
    'input must be one argument, not 2: leave out the others',
  ],
  ['null', () => [json(null)], 'input must be a JSON object'],
  ['a JSON string of the input', (id) => [json(JSON.stringify(input(id)))], 'input must be a JSON object'],
  ['an array of the input', (id) => [json([input(id)])], 'input must be a JSON object'],
  ['a field left out', (id) => [json(input(id, { type: undefined }))], 'type is missing'],
  [
    'a field of unknown name',
    (id) => [json(input(id, { payment_id: 'pay-1' }))],
    'payment_id is not known: remove it or correct its name',
  ],
  [
    'null for a field that may be left out',
    (id) => [json(input(id, { paymentId: null }))],
    'paymentId must be a string: leave it out if there is none',
  ],
  ['a body that is not JSON', (id) => [json(input(id, { body: 'paid' }))], 'body must be JSON'],
  [
    'a body that is an object',
    (id) => [json(input(id, { body: { status: 'done' } }))],
    'body must be a string that holds the exact JSON text',
  ],
  [
    'a negative number in the policy',
    (id) => [json(input(id, { policy: { fast: { budget: -1 } } }))],
    'policy.fast.budget must be at least 1',
  ],
  [
    'a time in the policy that no calendar has',
    (id) => [json(input(id, { policy: { maxAgeMs: 9e15 } }))],
    'policy.maxAgeMs must be at most 31622400000 ms (366 days)',
  ],
  [
    'a time in the policy that no timer of an attempt has',
    (id) => [json(input(id, { policy: { attemptTimeoutMs: 3e9 } }))],
    'policy.attemptTimeoutMs must be at most 600000 ms (10 minutes)',
  ],
  ['a policy that is an array', (id) => [json(input(id, { policy: [] }))], 'policy must be a JSON object'],
  [
    'several problems',
    (id) => [json(input(id, { type: 'KYC', body: '' }))],
    'type must be 1 to 128 characters of a-z, 0-9, ".", "_" and "-"; body must be JSON',
  ],
  [
    'encoding binary/plain',
    (id) => [payload('binary/plain', JSON.stringify(input(id)))],
    'input must be a JSON object',
  ],
  ['encoding binary/null', () => [payload('binary/null', '')], 'input is missing'],
  [
    'encoding json/plain and data that is not JSON',
    () => [payload('json/plain', '{"merchantId":')],
    unreadable('the encoding "json/plain"'),
  ],
  [
    'encoding json/plain and no data',
    () => [payload('json/plain', '')],
    unreadable('the encoding "json/plain"'),
  ],
  [
    'encoding json/protobuf',
    (id) => [payload('json/protobuf', JSON.stringify(input(id)))],
    unreadable('the encoding "json/protobuf"'),
  ],
  [
    'an unknown encoding',
    () => [payload('binary/encrypted', 'sealed')],
    unreadable('the encoding "binary/encrypted"'),
  ],
  ['no encoding', (id) => [payload(undefined, JSON.stringify(input(id)))], unreadable('no encoding')],
];

describe('a delivery started by a stranger', () => {
  test.for(refused)('R71 with %s ends as Failed and says what to do', async ([, payloads, problem]) => {
    const webhookId = randomUUID();
    const workflowId = await startByHand(webhookId, payloads(webhookId));

    expect(await failureOf(workflowId)).toEqual({ type: 'InvalidDeliveryInput', message: problem });
    expect(await failedWorkflowTasks(client.temporal, workflowId)).toBe(0);
  });

  test('R71 under an id that is not the one of its input ends as Failed and names the right one', async () => {
    const workflowId = await startByHand(randomUUID(), [json(input('another'))]);

    expect(await failureOf(workflowId)).toEqual({
      type: 'InvalidDeliveryInput',
      message: 'workflowId must be "delivery:strangers:another"',
    });
  });

  test('R71 on the task queue of the merchants ends as Failed and names the right one', async () => {
    const webhookId = randomUUID();
    const workflowId = await startByHand(webhookId, [json(input(webhookId))], MERCHANT_TASK_QUEUE);

    expect(await failureOf(workflowId)).toEqual({
      type: 'InvalidDeliveryInput',
      message: 'taskQueue must be "hookladder-deliveries"',
    });
  });

  test('R70 with an input that cannot be read keeps its id: the client reports a conflict', async () => {
    const webhookId = randomUUID();
    const workflowId = await startByHand(webhookId, [payload('binary/encrypted', 'sealed')]);
    await failureOf(workflowId);

    const handedOver = client.hooks.deliver({
      merchantId: 'strangers',
      webhookId,
      type: 'kyc.status_changed',
      body: '{}',
    });

    await expect(handedOver).rejects.toThrow(IdConflict);
  });
});
