import {
  climb,
  nearestBound,
  newLadders,
  type FailureReason,
  type Ladders,
} from '../../src/policy/ladders.ts';
import { defaultPolicy } from '../../src/policy/policy.ts';
import { retryAfterMs } from '../../src/policy/retry-after.ts';
import { kindOfStatus, type Verdict } from '../../src/policy/verdicts.ts';
import { verdictOf, type LadderCase, type ScriptedVerdict } from './cases.ts';

/**
 * R10–R13, R20–R24: a whole delivery by the decisions that the workflow makes, on a clock that attempts do
 * not move.
 * @param heldBefore - seconds that it was held before its first attempt.
 */
export function climbPurely(vector: LadderCase, heldBefore: number): LadderCase['expect'] {
  const attemptOffsets: number[] = [];
  let ladders = newLadders;
  let now = heldBefore * 1_000;
  for (;;) {
    const bound = nearestBound(defaultPolicy, ladders, 0);
    if (now >= bound.at) return ended(attemptOffsets, ladders, bound.at, 'failed', bound.reason);
    const scripted = verdictOf(vector, attemptOffsets.length);
    if (scripted === undefined) return ended(attemptOffsets, ladders, now, 'without a further verdict');
    attemptOffsets.push(now / 1_000);
    const { decision, ...climbed } = climb(defaultPolicy, ladders, asVerdict(scripted), vector.money, now);
    ladders = climbed.ladders;
    if (decision.next === 'end-delivered') return ended(attemptOffsets, ladders, now, 'delivered');
    if (decision.next === 'end-failed') {
      return ended(attemptOffsets, ladders, now, 'failed', decision.reason);
    }
    now += decision.pauseMs;
  }
}

function ended(
  attemptOffsets: number[],
  { fastFailures, slowSteps }: Ladders,
  at: number,
  state: string,
  reason?: FailureReason,
): LadderCase['expect'] {
  const end = { attemptOffsets, state, endOffset: at / 1_000, fastFailures, slowSteps };
  return reason === undefined ? end : { ...end, reason };
}

function asVerdict(scripted: ScriptedVerdict): Verdict {
  const durationMs = 0;
  const nothing = { code: 'scripted', message: 'scripted', durationMs };
  if (scripted === 'timeout' || scripted === 'network') return { kind: scripted, ...nothing };
  const { status, retryAfter } = typeof scripted === 'number' ? { status: scripted } : scripted;
  const kind = kindOfStatus(status);
  if (kind === 'network') return { kind, ...nothing };
  const asked = retryAfter === undefined ? undefined : retryAfterMs(String(retryAfter), 0);
  return { kind, status, durationMs, ...(asked === undefined ? {} : { retryAfterMs: asked }) };
}
