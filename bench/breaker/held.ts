import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { deliveryWorkflowId } from '../../src/contract.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import { largest, type Figure } from '../figures.ts';
import type { Scenario } from '../scenario.ts';
import { onStand } from '../stand.ts';
import { newMerchant, openBreaker, submit, untilHeld } from './merchant-under-test.ts';

/** Held time is 600 times as fast: 24 h are 144 s, asking every 60 to 75 min is every 6 to 7.5 s. */
const FASTER = 600;
const DAY_MS = 24 * 60 * 60_000;
const HELD = 1_000;
/** So many are looked at; only they ask 600 times as fast, as all would be more than the machine can do. */
const OBSERVED = 50;

const breaker: PolicyOverrides['breaker'] = {
  firstPauseMs: (5 * 60_000) / FASTER,
  longestPauseMs: (30 * 60_000) / FASTER,
  permitMs: 10_000,
};
const others: PolicyOverrides = { attemptTimeoutMs: 1_000, fast: { firstPauseMs: 1 }, breaker };
const observed: PolicyOverrides = {
  ...others,
  held: {
    firstAskMs: 30_000 / FASTER,
    firstAskSpreadMs: Math.round(10_000 / FASTER),
    askEveryMs: (60 * 60_000) / FASTER,
    askEverySpreadMs: (15 * 60_000) / FASTER,
  },
};

/** What being held for 24 hours costs a delivery in history, among 1,000. */
export const held: Scenario = async ({ log }) =>
  await onStand(others, async (stand) => {
    const under = await newMerchant(stand, 'held', others);
    const { merchantId, merchant } = under;
    await stand.receiver.answer(merchantId, 500);
    const openers = await openBreaker(stand.hooks(others), under);
    // Held before the observed ones, they make the trials.
    const more = HELD - OBSERVED - openers;
    await submit(stand.hooks(others), merchantId, 'w', more);
    await untilHeld(stand.hooks(others), merchantId, 'w', more);
    await submit(stand.hooks(observed), merchantId, 'observed', OBSERVED);
    await untilHeld(stand.hooks(observed), merchantId, 'observed', OBSERVED);
    const inRoom = (await merchant.breaker())?.held ?? 0;
    log(`${inRoom} held; watching ${OBSERVED} for ${DAY_MS / FASTER / 1_000} s`);
    const before = await costs(stand.temporal, merchantId);
    const trialsBefore = await stand.receiver.count(merchantId);
    await sleep(DAY_MS / FASTER);
    const after = await costs(stand.temporal, merchantId);
    const trials = (await stand.receiver.count(merchantId)) - trialsBefore;

    const ofDay = after.map((cost, index) => ({
      events: cost.events - (before[index]?.events ?? 0),
      asks: cost.asks - (before[index]?.asks ?? 0),
    }));
    const asks = sum(ofDay.map((each) => each.asks));
    const perAsk = sum(ofDay.map((each) => each.events)) / asks;
    const figures: Figure[] = [
      { what: 'in the room', value: inRoom, unit: '' },
      { what: 'trials meanwhile, all of the others', value: trials, unit: '' },
      {
        what: 'attempts of the observed',
        value: sum(after.map((each) => each.attempts)) - OBSERVED,
        unit: '',
        goal: { exactly: 0 },
      },
      { what: 'asks of one delivery in 24 h, mean', value: asks / OBSERVED, unit: '' },
      { what: 'events for one ask, mean', value: perAsk, unit: '' },
      {
        what: 'events of one delivery in 24 h, most',
        value: largest(ofDay.map((each) => each.events)),
        unit: '',
        goal: { atMost: 300 },
      },
      {
        what: 'events in 24 h if it asked every 60 min exactly',
        value: (perAsk * DAY_MS) / (60 * 60_000),
        unit: '',
        goal: { atMost: 300 },
      },
      {
        what: 'pending timers, most',
        value: largest(after.map((each) => each.timers)),
        unit: '',
        goal: { atMost: 1 },
      },
    ];
    return figures;
  });

interface Cost {
  readonly events: number;
  readonly asks: number;
  /** `attempt` activities; the first one of a held delivery made no attempt but was refused. */
  readonly attempts: number;
  /** Pending. */
  readonly timers: number;
}

async function costs({ workflow }: Client, merchantId: string): Promise<Cost[]> {
  return await Promise.all(
    Array.from({ length: OBSERVED }, async (_, index): Promise<Cost> => {
      const workflowId = deliveryWorkflowId(merchantId, `observed${index}`);
      const history = await workflow.getHandle(workflowId).fetchHistory();
      const events = history.events ?? [];
      const scheduled = events.map((event) => event.activityTaskScheduledEventAttributes?.activityType?.name);
      const started = events.filter((event) => event.timerStartedEventAttributes).length;
      const ended = events.filter(
        (event) => event.timerFiredEventAttributes ?? event.timerCanceledEventAttributes,
      ).length;
      return {
        events: events.length,
        asks: scheduled.filter((name) => name === 'ask').length,
        attempts: scheduled.filter((name) => name === 'attempt').length,
        timers: started - ended,
      };
    }),
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
