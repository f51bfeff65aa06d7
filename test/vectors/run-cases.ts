import type { VectorCase } from './cases.ts';
import { climbPurely } from './climb-purely.ts';
import type { LadderStand } from './ladder-stand.ts';
import { differences, type Outcome } from './outcome.ts';
import { checkBreaker, checkMoney, checkSignature } from './pure-cases.ts';

/** Cases under way at once: as many attempts as two cores make without keeping one another waiting. */
const AT_ONCE = 8;

/**
 * Runs cases, some at once, and tells each outcome as it comes.
 * @param stand - asked for the first time when a case needs it.
 */
export async function runCases(
  cases: readonly VectorCase[],
  stand: () => Promise<LadderStand>,
  onOutcome: (outcome: Outcome, vector: VectorCase) => void,
): Promise<void> {
  const queue = cases.values();
  const runNext = async (): Promise<void> => {
    for (const vector of queue) onOutcome(await runCase(vector, stand), vector);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, runNext));
}

/** Runs one case; whatever keeps it from running is a problem of it. */
export async function runCase(vector: VectorCase, stand: () => Promise<LadderStand>): Promise<Outcome> {
  const { file, name } = vector;
  try {
    return { file, name, ...(await check(vector, stand)) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { file, name, problems: [`could not be run: ${why}`] };
  }
}

async function check(
  vector: VectorCase,
  stand: () => Promise<LadderStand>,
): Promise<Pick<Outcome, 'ranAs' | 'problems'>> {
  switch (vector.file) {
    case 'money.json':
      return { problems: checkMoney(vector.data) };
    case 'signatures.json':
      return { problems: checkSignature(vector.data) };
    case 'breaker.json':
      return { problems: checkBreaker(vector.data) };
    case 'ladders.json': {
      const { heldBefore, expect } = vector.data;
      // How long a real delivery is held cannot be set to the second.
      if (heldBefore === undefined) return await (await stand()).run(vector.data);
      return { ranAs: 'pure', problems: differences(expect, climbPurely(vector.data, heldBefore)) };
    }
  }
}
