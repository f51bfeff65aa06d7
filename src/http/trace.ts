import { performance } from 'node:perf_hooks';
import type { Phase, PhaseTimings, Verdict } from '../policy/verdicts.ts';

/** Follows one exchange: which phase it is in, how long each took, and whom it has reached. */
export class Trace {
  private readonly startedAt = performance.now();
  private took: Partial<Record<`${Phase}Ms`, number>> = {};
  private current: { readonly phase: Phase; readonly since: number } | undefined;
  private connectedTo: { readonly address: string; readonly reused?: true } | undefined;

  /** Ends the phase under way and begins another. */
  enter(phase: Phase): void {
    this.leave();
    this.current = { phase, since: performance.now() };
  }

  /** Ends the phase under way. */
  leave(): void {
    if (this.current === undefined) return;
    const { phase, since } = this.current;
    this.took[`${phase}Ms`] = Math.round(performance.now() - since);
    this.current = undefined;
  }

  /** The phase under way. */
  phase(): Phase | undefined {
    return this.current?.phase;
  }

  /** The address that is being connected to. */
  reaches(address: string): void {
    this.connectedTo = { address };
  }

  /** An earlier exchange's connection serves this one too. */
  reuses(address: string): void {
    this.connectedTo = { address, reused: true };
  }

  /** Forgets what was so far: it was of no use. */
  restart(): void {
    this.current = undefined;
    this.connectedTo = undefined;
    this.took = {};
  }

  /** What a verdict says of its exchange, up to now. */
  facts(): Pick<Verdict, 'durationMs' | 'timings' | 'address'> {
    const { address, reused } = this.connectedTo ?? {};
    const timings: PhaseTimings = { ...this.took, ...(reused ? { reused } : {}) };
    return {
      durationMs: Math.round(performance.now() - this.startedAt),
      timings,
      ...(address === undefined ? {} : { address }),
    };
  }
}
