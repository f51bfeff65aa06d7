import { setTimeout as sleep } from 'node:timers/promises';
import { ApplicationFailure, cancellationSignal, heartbeat, log } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import { DELIVERY_WORKFLOW, MERCHANT_WORKFLOW } from '../contract.ts';
import { visibilityPage } from '../visibility.ts';
import type { CensusActivities } from './types.ts';

/** What no worker knows alone: how all deliveries and merchants stand, as visibility has it. */
export interface Census {
  /** Open deliveries by the wait that they published last; `other` are those that published none. */
  readonly states: Readonly<Record<(typeof WAITS)[number] | 'other', number>>;
  /** Merchants whose breaker is not closed, or that are paused. */
  readonly breakers: Readonly<Record<(typeof BREAKERS)[number], number>>;
  /** Age of the oldest open delivery, by whether it moved money, milliseconds; 0 if there is none. */
  readonly oldestMs: Readonly<Record<'true' | 'false', number>>;
  /** Unix milliseconds. */
  readonly at: number;
}

/** What the census works with. */
export interface CensusDependencies {
  readonly client: Client;
  /** Where the numbers go; absent if this worker shows no metrics. */
  readonly show: ((census: Census | undefined) => void) | undefined;
  /** Whether the worker still takes work. */
  readonly isRunning: () => boolean;
}

const WAITS = ['held-breaker', 'held-no-endpoint', 'held-paused', 'waiting-slow', 'waiting-fast'] as const;
const BREAKERS = ['open', 'half-open', 'paused'] as const;
const OPEN = `WorkflowType = "${DELIVERY_WORKFLOW}" AND ExecutionStatus = "Running"`;

const EVERY_MS = 60_000;
/** An activity lasts this long, so that the history of what calls it stays short. */
const LASTS_MS = 60 * 60_000;
/** Visibility allows ten requests a second to a namespace, for all its users together. */
const REQUESTS_APART_MS = 250;
/** How soon the end of the worker is noticed, and how many such looks lie between two heartbeats. */
const LOOK_MS = 500;
const BEAT_EVERY = 10;
const NOT_HERE_MS = 5_000;

/**
 * Counts open deliveries and breakers now and then. One activity for all workers: whatever their number, visibility is
 * asked about a dozen times a minute.
 */
export function createCensusActivities({ client, show, isRunning }: CensusDependencies): CensusActivities {
  return {
    async takeCensus() {
      if (show === undefined) {
        throw ApplicationFailure.create({
          type: 'NoMetrics',
          message: 'this worker shows no metrics: another one must count',
          nextRetryDelay: NOT_HERE_MS,
          category: 'BENIGN',
        });
      }
      const cancelled = cancellationSignal();
      const goesOn = () => isRunning() && !cancelled.aborted;
      const endsAt = Date.now() + LASTS_MS;
      try {
        while (goesOn() && Date.now() < endsAt) {
          const nextAt = Date.now() + EVERY_MS;
          show(await countAll(client));
          for (let beats = 0; goesOn() && Date.now() < nextAt; beats += 1) {
            if (beats % BEAT_EVERY === 0) heartbeat();
            await sleep(LOOK_MS);
          }
        }
      } catch (error) {
        log.warn('open deliveries cannot be counted', { error });
        throw error;
      } finally {
        show(undefined);
      }
    },
  };
}

async function countAll(client: Client): Promise<Census> {
  const count = async (query: string): Promise<number> => {
    heartbeat();
    await sleep(REQUESTS_APART_MS);
    return (await client.workflow.count(query)).count;
  };
  const each = async <Name extends string>(names: readonly Name[], query: (name: Name) => string) => {
    const counts = new Map<Name, number>();
    for (const name of names) counts.set(name, await count(query(name)));
    return Object.fromEntries(counts) as Record<Name, number>;
  };
  const at = Date.now();
  const all = await count(OPEN);
  const waits = await each(WAITS, (state) => `${OPEN} AND WebhookState = "${state}"`);
  const known = Object.values(waits).reduce((sum, some) => sum + some, 0);
  const breakers = await each(
    BREAKERS,
    (state) =>
      `WorkflowType = "${MERCHANT_WORKFLOW}" AND ExecutionStatus = "Running" AND WebhookBreaker = "${state}"`,
  );
  const ageOf = async (money: boolean) => {
    const query = `${OPEN} AND WebhookMoney = ${money}`;
    const startedAt = await oldestStart(
      at,
      async (before) => await count(`${query} AND StartTime < "${new Date(before).toISOString()}"`),
      async (before, size) => {
        const page = await visibilityPage(
          client,
          `${query} AND StartTime < "${new Date(before).toISOString()}"`,
          size,
        );
        return page.found.map((one) => one.startedAt);
      },
    );
    return startedAt === undefined ? 0 : at - startedAt;
  };
  return {
    // What was counted one after the other may disagree by what happened between.
    states: { ...waits, other: Math.max(0, all - known) },
    breakers,
    oldestMs: { true: await ageOf(true), false: await ageOf(false) },
    at,
  };
}

/** Beyond the longest life of a delivery. */
const OLDEST_MS = 31 * 24 * 60 * 60_000;
const PAGE = 200;
const PRECISE_MS = 1_000;

/**
 * When the oldest of many began, to a second. Visibility lists the newest first and need not be able to sort otherwise:
 * halving the time asks it about twenty times at most, however many there are.
 * @param countBefore - how many began before a time.
 * @param listBefore - when so many of them began.
 */
export async function oldestStart(
  now: number,
  countBefore: (before: number) => Promise<number>,
  listBefore: (before: number, size: number) => Promise<readonly number[]>,
): Promise<number | undefined> {
  let after = now - OLDEST_MS;
  let before = now;
  let count = await countBefore(before);
  if (count === 0) return undefined;
  while (count > PAGE && before - after > PRECISE_MS) {
    const middle = Math.floor((after + before) / 2);
    const older = await countBefore(middle);
    if (older === 0) after = middle;
    else [before, count] = [middle, older];
  }
  const starts = await listBefore(before, PAGE);
  return starts.length === 0 ? undefined : Math.min(...starts);
}
