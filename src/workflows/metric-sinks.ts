import { proxySinks, type Sinks } from '@temporalio/workflow';
import type { FailureReason } from '../policy/ladders.ts';
import type { Verdict } from '../policy/verdicts.ts';
import type { Transition } from './merchant-state.ts';

/** What workflows measure. A replay measures nothing; the names are the worker's business. */
export interface MetricSinks extends Sinks {
  metrics: {
    accepted(money: boolean): void;
    attempted(verdict: Verdict['kind'], code: string, durationMs: number): void;
    /** @param latencyMs - from acceptance to the end. */
    ended(
      state: 'delivered' | 'failed' | 'cancelled',
      reason: FailureReason | '',
      money: boolean,
      latencyMs: number,
    ): void;
    transition(event: Transition['event']): void;
  };
}

export const { metrics } = proxySinks<MetricSinks>();
