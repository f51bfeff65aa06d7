import type { Policy } from './policy.ts';

/** One finished attempt of any delivery of the merchant (R40). */
export interface Sample {
  /** When it finished, Unix milliseconds. */
  readonly at: number;
  /** Network failure, timeout or 5xx. */
  readonly failed: boolean;
}

/** R48: leave to make the one trial of a cycle. Used only while it is the current one. */
export interface Permit {
  readonly number: number;
  readonly webhookId: string;
  /** Unix milliseconds; a permit that is not heard of by then is lost. */
  readonly deadline: number;
}

/**
 * A merchant's circuit (R41–R45): plain JSON at any moment. The epoch grows with each transition, reset and
 * address change, so that what was seen before one changes nothing after it.
 */
export type Circuit = Closed | Open | HalfOpen;

export interface Closed {
  readonly state: 'closed';
  readonly epoch: number;
  /** R41: the sliding window, oldest first. */
  readonly window: readonly Sample[];
}

export interface Open {
  readonly state: 'open';
  readonly epoch: number;
  /** Unix milliseconds. */
  readonly until: number;
  /** R42: 1 for the first pause in a row. */
  readonly pause: number;
}

/** R44: the pause is over, a trial is due or under way. */
export interface HalfOpen {
  readonly state: 'half-open';
  readonly epoch: number;
  readonly pause: number;
  readonly permit?: Permit;
}

type Numbers = Policy['breaker'];

/** A circuit that nothing has been seen of. */
export function newCircuit(epoch = 0): Closed {
  return { state: 'closed', epoch, window: [] };
}

/** R42: the n-th pause in a row, milliseconds. */
export function pauseMs(numbers: Numbers, pause: number): number {
  return Math.min(numbers.firstPauseMs * 2 ** (pause - 1), numbers.longestPauseMs);
}

/**
 * R40, R41: takes in a sample. Only a closed circuit of the sample's own epoch counts it; a stamp ahead of
 * `now` is taken as now; samples may come out of order.
 * @param epoch - the epoch that the attempt's gate saw.
 */
export function sample(
  numbers: Numbers,
  circuit: Circuit,
  seen: Sample,
  epoch: number,
  now: number,
): Circuit {
  if (circuit.state !== 'closed' || epoch !== circuit.epoch) return circuit;
  const window = insert(numbers, circuit.window, { at: Math.min(seen.at, now), failed: seen.failed }, now);
  const next = { ...circuit, window };
  return seen.failed && isOverLine(numbers, window) ? opened(numbers, circuit.epoch, 1, now) : next;
}

/** R44: a pause that is over makes the circuit half-open; a permit past its deadline is lost (R48). */
export function tick(circuit: Circuit, now: number): Circuit {
  if (circuit.state === 'open' && now >= circuit.until) {
    return { state: 'half-open', epoch: circuit.epoch + 1, pause: circuit.pause };
  }
  if (circuit.state === 'half-open' && circuit.permit !== undefined && now >= circuit.permit.deadline) {
    return withoutPermit(circuit);
  }
  return circuit;
}

/** R44: whether exactly one delivery may be given a permit now. */
export function isTrialDue(circuit: Circuit): circuit is HalfOpen {
  return circuit.state === 'half-open' && circuit.permit === undefined;
}

/** R44, R48: gives the permit of this cycle to a delivery. */
export function grant(
  numbers: Numbers,
  circuit: HalfOpen,
  webhookId: string,
  number: number,
  now: number,
): HalfOpen {
  return { ...circuit, permit: { number, webhookId, deadline: now + numbers.permitMs } };
}

/** R45, R48: the verdict of a trial; nothing unless it is the current permit's. */
export function concludeTrial(
  numbers: Numbers,
  circuit: Circuit,
  number: number,
  failed: boolean,
  now: number,
): Circuit {
  if (circuit.state !== 'half-open' || circuit.permit?.number !== number) return circuit;
  return failed ? opened(numbers, circuit.epoch, circuit.pause + 1, now) : newCircuit(circuit.epoch + 1);
}

/** R48: a permit that cannot be used is given back; the next delivery gets a new one. */
export function giveBack(circuit: Circuit, number: number): Circuit {
  if (circuit.state !== 'half-open' || circuit.permit?.number !== number) return circuit;
  return withoutPermit(circuit);
}

/** R49: an operator's reset. */
export function reset(circuit: Circuit): Closed {
  return newCircuit(circuit.epoch + 1);
}

/** R50: a different address clears the window and ends the running pause: the trial is due at once, the doubling is kept. */
export function addressChanged(circuit: Circuit): Circuit {
  const epoch = circuit.epoch + 1;
  return circuit.state === 'closed' ? newCircuit(epoch) : { state: 'half-open', epoch, pause: circuit.pause };
}

function opened(numbers: Numbers, epoch: number, pause: number, now: number): Open {
  return { state: 'open', epoch: epoch + 1, until: now + pauseMs(numbers, pause), pause };
}

function withoutPermit({ state, epoch, pause }: HalfOpen): HalfOpen {
  return { state, epoch, pause };
}

/** R41: in order of time, no older than the window, no more than it holds. */
function insert(numbers: Numbers, window: readonly Sample[], seen: Sample, now: number): readonly Sample[] {
  const after = window.findLastIndex(({ at }) => at <= seen.at) + 1;
  return windowAt(numbers, window.toSpliced(after, 0, seen), now);
}

/** R41: the samples that count now. */
export function windowAt(numbers: Numbers, samples: readonly Sample[], now: number): readonly Sample[] {
  // They are in order of time: looks at no more than it drops, since an entity judges thousands a second.
  const inside = samples.findIndex(({ at }) => now - at < numbers.windowMs);
  const first = inside === -1 ? samples.length : Math.max(inside, samples.length - numbers.windowSamples);
  return first === 0 ? samples : samples.slice(first);
}

function isOverLine(numbers: Numbers, window: readonly Sample[]): boolean {
  const failed = window.filter((each) => each.failed).length;
  return window.length >= numbers.leastSamples && failed / window.length >= numbers.failedShare;
}
