import { RawValue } from '@temporalio/common';
import type { DeliveryHandle } from '../../../src/client.ts';
import { merchantWorkflowId } from '../../../src/contract.ts';
import type { PolicyOverrides } from '../../../src/policy/policy.ts';
import { startReceiver } from '../../support/receiver.ts';
import { NO_BREAKER, startSkipping } from '../../support/time-skipping.ts';
import type { Stand } from '../stand.ts';
import { ann, deliver, money, notMoney, quick, startRaw, type Scenario } from './common.ts';

const DAY_MS = 86_400_000;

async function skipping(stand: Stand, merchantId: string, policy: PolicyOverrides): Promise<DeliveryHandle> {
  return await startSkipping(stand.temporal, { merchantId, webhookId: 'w', ...money, policy });
}

/** Of deliveries. */
export const deliveries: readonly Scenario[] = [
  async (stand) => {
    await stand.merchant('delivered');
    await stand.recordEnded('delivered', await deliver(stand.hooks(), 'delivered'));
  },
  async (stand) => {
    const later = { status: 503, headers: { 'retry-after': '3000' } };
    await stand.merchant('waiting-fast', (nth) => (nth < 2 ? later : 200));
    const delivery = await deliver(stand.hooks(), 'waiting-fast');
    await stand.untilState(delivery, 'waiting-fast');
    await stand.recordDelivery('waiting-fast', delivery);
    await delivery.tryNow(ann);
    await stand.recordDelivery('try-now-goes-on', delivery);
    await delivery.tryNow();
    await stand.recordEnded('try-now-delivered', delivery);
  },
  async (stand) => {
    await stand.merchant('waiting-slow', (nth) => (nth === 0 ? 404 : 200));
    const delivery = await deliver(stand.hooks(), 'waiting-slow');
    await stand.untilState(delivery, 'waiting-slow');
    await stand.recordDelivery('waiting-slow', delivery);
    await stand.temporal.workflow.getHandle(delivery.workflowId).signal('tryNow');
    await stand.recordEnded('try-now-by-signal', delivery);
  },
  async (stand) => {
    await stand.merchant('dead', () => 503, stand.hooks(NO_BREAKER));
    await stand.recordEnded('fast-ladder-exhausted', await skipping(stand, 'dead', NO_BREAKER));
  },
  async (stand) => {
    await stand.merchant('rejects', () => 404);
    await stand.recordEnded('slow-ladder-exhausted', await skipping(stand, 'rejects', {}));
  },
  async (stand) => {
    const limits = { status: 429, headers: { 'retry-after': '3600' } };
    await stand.merchant('limits', (nth) => (nth < 5 ? 404 : limits));
    await stand.recordEnded('slow-ladder-ceiling', await skipping(stand, 'limits', {}));
  },
  async (stand) => {
    const policy = { held: { askEveryMs: 4 * DAY_MS } };
    await stand.recordEnded('expired', await skipping(stand, 'nowhere', policy));
  },
  async (stand) => {
    await stand.merchant('rejected', (nth) => (nth === 0 ? 404 : 200));
    const delivery = await deliver(stand.hooks(), 'rejected', notMoney);
    await stand.recordEnded('rejected', delivery);
    await delivery.redeliver(ann);
    await stand.recordEnded('redelivered', delivery);
  },
  async (stand) => {
    const away = { status: 301, headers: { location: 'https://elsewhere.example/' } };
    await stand.merchant('redirects', (nth) => (nth < 2 ? away : 200));
    const slow = await deliver(stand.hooks(quick), 'redirects');
    await stand.untilState(slow, 'waiting-slow');
    await stand.recordDelivery('redirected-money', slow);
    await stand.recordEnded('redirected', await deliver(stand.hooks(quick), 'redirects', notMoney, 'w2'));
  },
  async (stand) => {
    const answers = ['network', 'timeout', 429, 500, 200] as const;
    const hooks = stand.hooks({ ...quick, ...NO_BREAKER });
    await stand.merchant('fails', (nth) => answers[nth] ?? 200, hooks);
    await stand.recordEnded('network-timeout-429-500', await deliver(hooks, 'fails'));
  },
  async (stand) => {
    const answers = [404, 503, 404, 503, 200];
    await stand.merchant('both', (nth) => answers[nth] ?? 200);
    const hooks = stand.hooks({ ...quick, slow: { stepsMs: [20, 20, 20] } });
    await stand.recordEnded('both-ladders', await deliver(hooks, 'both'));
  },
  async (stand) => {
    const hooks = stand.hooks({}, { allowedNetworks: ['10.0.0.0/8'] });
    await hooks.merchant('blocked').setEndpoint({ ...stand.endpoint('blocked'), url: 'http://10.0.0.1/' });
    await stand.recordEnded('address-blocked', await deliver(hooks, 'blocked', notMoney));
  },
  async (stand) => {
    const delivery = await deliver(stand.hooks(), 'no-endpoint');
    await stand.untilState(delivery, 'held-no-endpoint');
    await delivery.tryNow();
    await stand.recordDelivery('held-no-endpoint', delivery);
    await stand.untilHeld(stand.hooks().merchant('no-endpoint'), 1);
    await stand.recordMerchant('no-endpoint', delivery);
    await stand.merchant('no-endpoint');
    await stand.recordEnded('held-then-delivered', delivery);
  },
  async (stand) => {
    const held = { firstAskMs: 300, firstAskSpreadMs: 1, askEveryMs: 300, askEverySpreadMs: 100 };
    const delivery = await deliver(stand.hooks({ held }), 'asks');
    await stand.untilHeld(stand.hooks().merchant('asks'), 1);
    // Its room is lost, so that nobody wakes the delivery.
    await stand.temporal.workflow.getHandle(merchantWorkflowId('asks')).terminate();
    await stand.merchant('asks');
    await stand.recordEnded('held-asks-and-goes', delivery);
  },
  async (stand) => {
    const merchant = await stand.merchant('paused');
    await merchant.pause(ann);
    const delivery = await deliver(stand.hooks(), 'paused');
    await stand.untilState(delivery, 'held-paused');
    await stand.recordDelivery('held-paused', delivery);
    await stand.untilHeld(merchant, 1);
    await stand.recordMerchant('paused', merchant);
    await merchant.resume(ann);
    await stand.recordEnded('held-paused-then-delivered', delivery);
  },
  async (stand) => {
    await stand.merchant('cancels', () => 404);
    const asleep = await deliver(stand.hooks(), 'cancels');
    await stand.untilState(asleep, 'waiting-slow');
    await asleep.cancel(ann);
    await stand.recordEnded('cancelled-asleep', asleep);
    const held = await deliver(stand.hooks(), 'cancels-held');
    await stand.untilState(held, 'held-no-endpoint');
    await held.cancel();
    await stand.recordEnded('cancelled-held', held);
  },
  ...[200, 404].map((status): Scenario => async (stand) => {
    const receiver = await startReceiver(() => status);
    const answered = Promise.withResolvers<void>();
    receiver.hold(answered.promise);
    const merchantId = `in-flight-${status}`;
    await stand
      .hooks()
      .merchant(merchantId)
      .setEndpoint({ ...stand.endpoint(merchantId), url: receiver.url });
    const delivery = await deliver(stand.hooks({ attemptTimeoutMs: 60_000 }), merchantId);
    await stand.until('a POST is under way', () => receiver.received.length === 1);
    await stand.recordDelivery(`attempting-${status}`, delivery);
    await delivery.cancel(ann);
    answered.resolve();
    await stand.recordEnded(`cancelled-in-flight-${status}`, delivery);
    await receiver.close();
  }),
  async (stand) => {
    const policy = { slow: { ceilingMs: 3_000 } };
    const merchant = await stand.merchant('ceiling', () => 404);
    const delivery = await deliver(stand.hooks({ slow: { ...policy.slow, stepsMs: [1_000] } }), 'ceiling');
    await stand.untilState(delivery, 'waiting-slow');
    await merchant.removeEndpoint();
    await stand.recordEnded('ceiling-while-held', delivery);
  },
  async (stand) => {
    const stranger = { keys: `other:${Buffer.alloc(32, 8).toString('base64')}` };
    const sealedByAnother = stand.hooks({}, { secretKeys: stranger });
    await stand.merchant('own-fault', () => 200, sealedByAnother);
    const delivery = await deliver(stand.hooks(), 'own-fault');
    const expires = await deliver(
      stand.hooks({ maxAgeMs: 4_000, attemptTimeoutMs: 500 }),
      'own-fault',
      money,
      'w2',
    );
    await stand.untilState(delivery, 'own-fault');
    await stand.recordDelivery('own-fault', delivery);
    await stand.recordEnded('own-fault-until-expired', expires);
    await stand.merchant('own-fault');
    await stand.recordEnded('own-fault-then-delivered', delivery);
  },
  async (stand) => {
    const later = { status: 503, headers: { 'retry-after': '3000' } };
    const merchant = await stand.merchant('tries', (nth) => (nth === 0 ? later : 404));
    const delivery = await deliver(stand.hooks(), 'tries', notMoney);
    await stand.untilState(delivery, 'waiting-fast');
    await merchant.removeEndpoint();
    await stand.until('a try is held', async () => (await delivery.tryNow()).outcome === 'held');
    await stand.recordDelivery('try-now-held', delivery);
    await merchant.setEndpoint(stand.endpoint('tries'));
    await stand.until('a try is let through', async () => (await delivery.tryNow(ann)).outcome !== 'held');
    await stand.recordEnded('try-now-rejected', delivery);
  },
  async (stand) => {
    await stand.merchant('stranger');
    await startRaw(stand, 'delivery', 'delivery:stranger:w', {
      merchantId: 'stranger',
      webhookId: 'w',
      ...money,
    });
    await stand.recordEnded('from-a-stranger', stand.hooks().delivery('stranger', 'w'));
    await startRaw(stand, 'delivery', 'delivery:stranger:w2', { merchantId: 'stranger' });
    await stand.recordRefused('delivery.invalid-input', 'delivery:stranger:w2');
    const undecodable = new RawValue({
      metadata: { encoding: Buffer.from('binary/odd') },
      data: Buffer.from('?'),
    });
    await startRaw(stand, 'delivery', 'delivery:stranger:w3', undecodable);
    await stand.recordRefused('delivery.undecodable-input', 'delivery:stranger:w3');
  },
];

/** The only scenario whose worker is killed. */
export async function outcomeUnknown(stand: Stand): Promise<void> {
  const merchantId = 'outcome-unknown';
  const hooks = stand.hooks({ ...quick, attemptTimeoutMs: 5_000, attemptOverheadMs: 1_000 });
  const worker = await stand.startWorkerToKill();
  await stand.merchant(merchantId, () => 'timeout');
  const delivery = await deliver(hooks, merchantId);
  await stand.until('a POST is under way', () => stand.received(merchantId) > 0);
  await worker.kill();
  stand.answer(merchantId, () => 200);
  const workers = await stand.startWorkers();
  await stand.recordEnded('outcome-unknown', delivery);
  await workers.shutdown();
}
