import { setTimeout as sleep } from 'node:timers/promises';
import { NoWorker } from '../src/client.ts';

/**
 * Begins `count` actions at a steady rate, whether or not those before have ended; each at a random moment of its time, so
 * that they do not beat with clocks of the server.
 * @returns what came of each, in order, when all have ended.
 */
export async function paced<T>(
  perSecond: number,
  count: number,
  action: (index: number) => Promise<T>,
): Promise<PromiseSettledResult<T>[]> {
  const startedAt = performance.now();
  const actions: Promise<T>[] = [];
  for (let index = 0; index < count; index++) {
    const waitMs = startedAt + ((index + Math.random()) * 1_000) / perSecond - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const begun = action(index);
    // Looked at when all have ended.
    begun.catch(() => undefined);
    actions.push(begun);
  }
  return await Promise.allSettled(actions);
}

/** Runs `count` actions, so many at a time, each beginning when one before has ended; fewer if one says `false`. */
export async function manyAtATime(
  atATime: number,
  count: number,
  action: (index: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count && (await action(next++)) !== false);
  };
  await Promise.all(Array.from({ length: atATime }, lane));
}

/**
 * Asks again and again until the answer is as wanted; workers that are too busy to answer are asked again.
 * @returns the last answer; when the time is over it may not be the wanted one.
 */
export async function polled<T>(
  ask: () => Promise<T>,
  isWanted: (answer: T) => boolean,
  { withinMs = 60_000, everyMs = 100 } = {},
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const isLast = performance.now() >= deadline;
    try {
      const answer = await ask();
      if (isWanted(answer) || isLast) return answer;
    } catch (error) {
      if (!(error instanceof NoWorker) || isLast) throw error;
    }
    await sleep(everyMs);
  }
}

/** Like {@link polled}, for what must come true. @throws if it does not in time. */
export async function until(
  what: string,
  isTrue: () => Promise<boolean>,
  { withinMs = 120_000, everyMs = 100 } = {},
): Promise<void> {
  if (!(await polled(isTrue, (answer) => answer, { withinMs, everyMs }))) {
    throw new Error(`not within ${withinMs / 1_000} s: ${what}`);
  }
}
