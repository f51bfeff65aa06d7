import type { DeliveryHandle, Hookladder, MerchantHandle, Webhook } from '../../../src/client.ts';
import { merchantWorkflowId } from '../../../src/contract.ts';
import type { PolicyOverrides } from '../../../src/policy/policy.ts';
import type { Stand } from '../stand.ts';

export const money = { type: 'payment.status_changed', body: '{"status":"paid"}', paymentId: 'pay_1' };
export const notMoney = { type: 'kyc.status_changed', body: '{"status":"approved"}' };
export const ann = { by: 'ann', why: 'their deploy is fixed' };

/** Fast pauses of milliseconds. */
export const quick: PolicyOverrides = { attemptTimeoutMs: 1_000, fast: { firstPauseMs: 1 } };
/** Pauses of the breaker of seconds. */
export const short: PolicyOverrides = {
  ...quick,
  breaker: { firstPauseMs: 2_000, longestPauseMs: 4_000, permitMs: 10_000 },
  drain: { perSecond: 20, slowDownMs: 4_000 },
};
export const patient: PolicyOverrides = { ...short, breaker: { firstPauseMs: 600_000 } };

export type Scenario = (stand: Stand) => Promise<void>;

export async function deliver(
  hooks: Hookladder,
  merchantId: string,
  webhook: Pick<Webhook, 'type' | 'body' | 'paymentId'> = money,
  webhookId = 'w',
): Promise<DeliveryHandle> {
  return (await hooks.deliver({ merchantId, webhookId, ...webhook })).delivery;
}

export async function deliverMany(
  hooks: Hookladder,
  merchantId: string,
  count: number,
): Promise<DeliveryHandle[]> {
  return await Promise.all(
    Array.from({ length: count }, async (_, nth) => await deliver(hooks, merchantId, notMoney, `w${nth}`)),
  );
}

export const allEnded = async (handles: readonly DeliveryHandle[]) =>
  await Promise.all(handles.map(async (handle) => await handle.result()));

/** As a service in another language might: without search attributes, with any input. */
export async function startRaw(
  stand: Stand,
  type: string,
  workflowId: string,
  input: unknown,
): Promise<void> {
  const isDelivery = type === 'delivery' || type === 'endpointTest';
  const taskQueue = isDelivery ? 'hookladder-deliveries' : 'hookladder-merchants';
  await stand.temporal.workflow.start(type, { workflowId, taskQueue, args: [input] });
}

/** An endpoint that is dead, and whose breaker is open; `first` waits out its ladder pause or is held. */
export async function opened(stand: Stand, merchantId: string, policy: PolicyOverrides) {
  const hooks = stand.hooks(policy);
  const merchant = await stand.merchant(merchantId, () => 500, hooks);
  const first = await deliver(hooks, merchantId, money, 'first');
  await stand.untilCircuit(merchant, 'open');
  return { hooks, merchant, first };
}

export async function untilDrained(stand: Stand, merchant: MerchantHandle): Promise<void> {
  await stand.untilHeld(merchant, 0);
}

export async function runOf(stand: Stand, merchantId: string): Promise<string> {
  return (await stand.temporal.workflow.getHandle(merchantWorkflowId(merchantId)).describe()).runId;
}

/** Sends an entity signals that change nothing, until its run has ended; the run that has is returned. */
export async function untilNextRun(stand: Stand, merchantId: string): Promise<string> {
  const run = await runOf(stand, merchantId);
  await stand.until(`${merchantId} continues as new`, async () => {
    await stand.temporal.workflow.getHandle(merchantWorkflowId(merchantId)).signal('noise', 'nothing');
    return (await runOf(stand, merchantId)) !== run;
  });
  return run;
}

export async function startEntity(stand: Stand, merchantId: string, policy: PolicyOverrides): Promise<void> {
  const input = { merchantId, policy, signalsPerRun: 4 };
  await startRaw(stand, 'merchantBreaker', merchantWorkflowId(merchantId), input);
}

/** A few at once. One that fails is told of, and fails all at the end. */
export async function inTurn(stand: Stand, scenarios: readonly Scenario[], atOnce = 4): Promise<void> {
  const left = [...scenarios];
  const failures: unknown[] = [];
  const lane = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      await next(stand).catch((error: unknown) => {
        console.error(error);
        failures.push(error);
      });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  if (failures.length > 0) throw new Error(`${failures.length} scenarios failed`);
}
