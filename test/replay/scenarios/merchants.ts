import { setTimeout as sleep } from 'node:timers/promises';
import type { DeliveryHandle } from '../../../src/client.ts';
import { merchantWorkflowId } from '../../../src/contract.ts';
import {
  allEnded,
  ann,
  deliver,
  deliverMany,
  money,
  opened,
  patient,
  short,
  startEntity,
  startRaw,
  untilDrained,
  untilNextRun,
  type Scenario,
} from './common.ts';

/** Of merchants' entities. */
export const merchants: readonly Scenario[] = [
  async (stand) => {
    const { hooks, merchant, first } = await opened(stand, 'dies', short);
    const held = await deliverMany(hooks, 'dies', 3);
    await stand.untilHeld(merchant, 4);
    await stand.recordDelivery('held-breaker', held[0] as DeliveryHandle);
    await stand.recordMerchant('open', merchant);
    await stand.untilTransition(merchant, 'trial-failed');
    await stand.recordDelivery('held-again-after-trial', first);
    stand.answer('dies', () => 200);
    await allEnded([first, ...held]);
    await untilDrained(stand, merchant);
    for (const [nth, delivery] of held.entries()) await stand.recordDelivery(`released-${nth}`, delivery);
    await stand.recordDelivery('tried-and-delivered', first);
    await stand.recordMerchant('opened-tried-drained', merchant);
  },
  async (stand) => {
    const { hooks, merchant, first } = await opened(stand, 'slows-down', {
      ...short,
      drain: { slowDownMs: 8_000 },
    });
    const held = await deliverMany(hooks, 'slows-down', 3);
    await stand.untilHeld(merchant, 4);
    stand.answer('slows-down', () => 429);
    await stand.until(
      'the drain waits',
      async () => (await merchant.breaker())?.gate.drainPausedUntil !== undefined,
    );
    await stand.recordMerchant('drain-slowed-down', merchant);
    // Gates read what the entity shows from a cache that is up to a second old.
    await sleep(1_500);
    const fresh = await deliver(hooks, 'slows-down', money, 'fresh');
    await stand.untilState(fresh, 'held-breaker');
    await stand.recordDelivery('held-in-the-drain', fresh);
    stand.answer('slows-down', () => 200);
    await allEnded([first, ...held, fresh]);
    await untilDrained(stand, merchant);
    await stand.recordMerchant('drained-after-429', merchant);
  },
  async (stand) => {
    const policy = { ...short, attemptTimeoutMs: 4_000, breaker: { firstPauseMs: 1_000, permitMs: 1_000 } };
    const { hooks, merchant, first } = await opened(stand, 'permit-lost', policy);
    const held = await deliverMany(hooks, 'permit-lost', 3);
    stand.answer('permit-lost', () => 'timeout');
    await stand.untilTransition(merchant, 'permit-lost');
    await stand.recordMerchant('permit-lost', merchant);
    stand.answer('permit-lost', () => 200);
    await allEnded([first, ...held]);
  },
  async (stand) => {
    const hooks = stand.hooks(short);
    const later = { status: 503, headers: { 'retry-after': '12' } };
    const merchant = await stand.merchant('nobody-waits', (nth) => (nth < 5 ? later : 200), hooks);
    const asleep = await deliverMany(hooks, 'nobody-waits', 5);
    await stand.untilTransition(merchant, 'trial-due');
    await stand.recordMerchant('half-open-nobody-waits', merchant);
    await allEnded(asleep);
    await stand.recordMerchant('half-open-then-tried', merchant);
  },
  async (stand) => {
    const { hooks, merchant, first } = await opened(stand, 'gives-back', short);
    const held = await deliverMany(hooks, 'gives-back', 2);
    await stand.untilHeld(merchant, 3);
    // The one whose turn it is has ended without a word.
    for (const { workflowId } of held) await stand.temporal.workflow.getHandle(workflowId).terminate();
    stand.answer('gives-back', () => 200);
    await first.result();
    await stand.recordMerchant('permit-given-back', merchant);
  },
  async (stand) => {
    const { hooks, merchant, first } = await opened(stand, 'cancels-trial', {
      ...patient,
      attemptTimeoutMs: 5_000,
    });
    stand.answer('cancels-trial', () => 'timeout');
    const held = await deliver(hooks, 'cancels-trial', money, 'held');
    await stand.untilHeld(merchant, 2);
    await held.cancel(ann);
    await stand.recordEnded('cancelled-held-breaker', held);
    await stand.untilHeld(merchant, 1);
    await merchant.resetBreaker(ann);
    stand.answer('cancels-trial', () => 200);
    await first.result();
    await stand.recordMerchant('left-then-reset', merchant);
  },
  async (stand) => {
    const merchant = await stand.merchant('operated');
    const entity = stand.temporal.workflow.getHandle(merchantWorkflowId('operated'));
    await merchant.pause(ann);
    await merchant.pause();
    await merchant.resume(ann);
    await merchant.setUrl(`${stand.receiver.url}operated?elsewhere`, ann);
    await merchant.rotateSecret('another secret of 20 bytes', ann);
    await stand.recordMerchant('two-secrets', merchant);
    await merchant.promoteSecret(ann);
    await merchant.rotateSecret('a third secret of 20 bytes', { keepOldFor: 300 });
    await stand.until('promoted', async () => (await merchant.describe()).endpoint?.promoteAt === undefined);
    await merchant.rotateSecret('a fourth secret of 20 bytes');
    await merchant.setEndpoint(stand.endpoint('operated'), ann);
    await merchant.setEndpoint({ ...stand.endpoint('operated'), headers: { 'X-Key': 'k' } }, ann);
    await merchant.removeEndpoint(ann);
    await merchant.setEndpoint({ ...stand.endpoint('operated'), url: `${stand.receiver.url}operated?moved` });
    await merchant.resetBreaker(ann);
    await entity.signal('setEndpoint', { url: 7 });
    await entity.signal('unheard-of');
    await entity.cancel();
    await merchant.pause();
    await stand.recordMerchant('operated', merchant);
  },
  async (stand) => {
    const hooks = stand.hooks({ ...short, drain: { perSecond: 4 } });
    const held = await deliverMany(hooks, 'drains', 16);
    const merchant = hooks.merchant('drains');
    await stand.untilHeld(merchant, 16);
    await stand.merchant('drains', () => 200, hooks);
    await stand.until('some went', () => stand.received('drains') >= 3);
    await stand.recordMerchant('draining', merchant);
    await merchant.pause(ann);
    await stand.recordMerchant('paused-in-the-drain', merchant);
    await merchant.resume(ann);
    await allEnded(held);
    await untilDrained(stand, merchant);
    await stand.recordMerchant('drained', merchant);
  },
  async (stand) => {
    const hooks = stand.hooks({ ...short, drain: { perSecond: 4 } });
    const merchant = await stand.merchant('pages', () => 200, hooks);
    await merchant.pause();
    const held = await deliverMany(hooks, 'pages', 16);
    await stand.untilHeld(merchant, 16);
    await merchant.resume();
    await allEnded(held);
    await untilDrained(stand, merchant);
    await stand.recordMerchant('drained-in-short-pages', merchant);
  },
  async (stand) => {
    const policy = {
      room: { places: 3 },
      held: { firstAskMs: 20_000, firstAskSpreadMs: 1, askEveryMs: 2_000, askEverySpreadMs: 100 },
    };
    await startEntity(stand, 'full', policy);
    const hooks = stand.hooks(policy);
    const held = await deliverMany(hooks, 'full', 6);
    const merchant = hooks.merchant('full');
    await stand.untilHeld(merchant, 3);
    const full = await untilNextRun(stand, 'full');
    await stand.recordMerchant('room-full-until-continue-as-new', merchant, full);
    await stand.merchant('full', () => 200, hooks);
    const next = await untilNextRun(stand, 'full');
    await stand.recordMerchant('room-full-after-continue-as-new', merchant, next);
    await allEnded(held);
  },
  async (stand) => {
    await startEntity(stand, 'open-runs', patient);
    const { hooks, merchant, first } = await opened(stand, 'open-runs', patient);
    const held = await deliverMany(hooks, 'open-runs', 3);
    await stand.untilHeld(merchant, 4);
    await untilNextRun(stand, 'open-runs');
    const carried = await untilNextRun(stand, 'open-runs');
    await stand.recordMerchant('open-over-continue-as-new', merchant, carried);
    stand.answer('open-runs', () => 200);
    await merchant.resetBreaker(ann);
    await allEnded([first, ...held]);
    await stand.recordMerchant('open-then-reset-after-continue-as-new', merchant);
  },
  async (stand) => {
    const { hooks, merchant, first } = await opened(stand, 'lost', patient);
    await stand.temporal.workflow.getHandle(merchantWorkflowId('lost')).terminate();
    await stand.recordMerchant('terminated', merchant);
    const second = await deliver(hooks, 'lost', money, 'second');
    await stand.untilTransition(merchant, 'recovered');
    await stand.untilState(second, 'held-breaker');
    stand.answer('lost', () => 200);
    await merchant.resetBreaker(ann);
    await second.result();
    await stand.recordMerchant('recovered', merchant);
    await first.cancel();
  },
  async (stand) => {
    await startRaw(stand, 'merchantBreaker', merchantWorkflowId('odd'), { merchantId: 'other' });
    await stand.recordRefused('merchant.invalid-input', merchantWorkflowId('odd'));
  },
];
