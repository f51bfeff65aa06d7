import * as breaker from '../policy/circuit.ts';
import {
  shownUrl,
  type AddressChange,
  type Cause,
  type CircuitView,
  type Endpoint,
  type GateView,
  type Pausing,
} from '../policy/gate.ts';
import type { Policy } from '../policy/policy.ts';
import { promote, promotionDueAt, rotate } from '../policy/rotation.ts';
import {
  beginRelease,
  endRelease,
  enter,
  leave,
  markReleasing,
  packed,
  trialChoice,
  unpacked,
  type PackedRoom,
  type Place,
  type WaitingRoom,
} from '../policy/waiting-room.ts';
import type { Report, Rotation } from './messages.ts';

/** A change of the circuit, of what holds a merchant's deliveries or of its secrets, with who caused it. */
export interface Transition extends Cause {
  readonly at: number;
  /** R41: what opened it. */
  readonly samples?: number;
  readonly failed?: number;
  /** R50: the address before and after, without user, password and query. */
  readonly from?: string;
  readonly to?: string;
  readonly event:
    | 'opened'
    | 'trial-due'
    | 'trial-failed'
    | 'trial-passed'
    | 'permit-lost'
    | 'reset'
    | 'recovered'
    | 'address-set'
    | 'endpoint-set'
    | 'address-removed'
    | 'secret-rotated'
    | 'secret-promoted'
    | 'rotation-ended'
    | 'paused'
    | 'resumed';
}

/** All that a merchant's entity knows; plain JSON, carried whole over continue-as-new. */
export interface MerchantSnapshot {
  readonly version: number;
  readonly circuit: breaker.Circuit;
  /** When it opened last, Unix milliseconds. */
  readonly openedAt?: number;
  /** R48: permits given so far. */
  readonly permits: number;
  readonly endpoint?: Endpoint;
  /** R50: the address that the circuit has learnt about, kept while there is none. */
  readonly lastUrl?: string;
  readonly paused?: Pausing;
  readonly drainPausedUntil?: number;
  /** Up to {@link FAILURES_TOLD_APART_MS} older than the newest failure in the window. */
  readonly lastFailureAt?: number;
  readonly room: PackedRoom;
  /** The newest report of each reporter, so that a repeated one counts once. */
  readonly reporters: readonly (readonly [reporter: string, sequence: number])[];
  readonly transitions: readonly Transition[];
}

/** Workers are told of failures at most so often, milliseconds: each time costs a change of the view. */
const FAILURES_TOLD_APART_MS = 60_000;
/** Transitions that are remembered. */
const TRANSITIONS = 20;
/** Reporters whose newest number is remembered: more than there are workers. */
const REPORTERS = 200;

const nothingKnown: MerchantSnapshot = {
  version: 0,
  circuit: breaker.newCircuit(),
  permits: 0,
  room: [],
  reporters: [],
  transitions: [],
};

/**
 * R52: what a new entity knows of one that was terminated or lost, by the last view that it published. Its
 * window and its room are gone; the deliveries register again by themselves.
 */
export function recovered(view: GateView, now: number): MerchantSnapshot {
  const epoch = view.epoch + 1;
  return {
    ...nothingKnown,
    version: view.version,
    // Beyond all that were given: a verdict of a permit from before must not count.
    permits: now,
    circuit: recoveredCircuit(view.circuit, epoch),
    ...(view.openedAt === undefined ? {} : { openedAt: view.openedAt }),
    ...(view.endpoint === undefined ? {} : { endpoint: view.endpoint, lastUrl: view.endpoint.url }),
    ...(view.paused === undefined ? {} : { paused: view.paused }),
    transitions: [{ at: now, event: 'recovered' }],
  };
}

function recoveredCircuit(circuit: CircuitView, epoch: number): breaker.Circuit {
  switch (circuit.state) {
    case 'closed':
      return breaker.newCircuit(epoch);
    case 'open':
      return { ...circuit, epoch };
    case 'half-open':
      return { state: 'half-open', epoch, pause: circuit.pause };
  }
}

/** The rules of a merchant's entity: what messages and time change, what is to be done, what the gate is told. */
export class MerchantState {
  private readonly policy: Policy;
  private known: Omit<MerchantSnapshot, 'room'>;
  private room: WaitingRoom;
  private published: string;
  private untold: Transition[] = [];

  constructor(policy: Policy, snapshot: MerchantSnapshot = nothingKnown) {
    this.policy = policy;
    const { room, ...known } = snapshot;
    this.known = known;
    this.room = unpacked(room);
    this.published = JSON.stringify(this.viewAt(snapshot.version));
  }

  snapshot(): MerchantSnapshot {
    return { ...this.known, room: packed(this.room) };
  }

  /** Deliveries in the waiting room. */
  get held(): number {
    return this.room.length;
  }

  /** What the gate needs. */
  view(): GateView {
    return this.viewAt(this.known.version);
  }

  /** The view with a new version if anything in it has changed since the last time. */
  viewIfChanged(): GateView | undefined {
    if (JSON.stringify(this.view()) === this.published) return undefined;
    this.set({ version: this.known.version + 1 });
    this.published = JSON.stringify(this.view());
    return this.view();
  }

  /** The transitions since the last time. */
  takeTransitions(): readonly Transition[] {
    const transitions = this.untold;
    this.untold = [];
    return transitions;
  }

  /**
   * R50: a different address clears the window and ends the running pause; a change of secrets alone does not. R63: it
   * ends a rotation: the secret that is set is the only one.
   */
  setEndpoint(endpoint: Omit<Endpoint, 'next'>, now: number, cause: Cause = {}): void {
    this.learnUrl(endpoint.url, now, cause);
    if (this.known.endpoint?.next !== undefined) {
      this.note(now, 'rotation-ended', { why: 'the endpoint was set, with one secret' });
    }
    this.set({ endpoint });
  }

  /**
   * R50: a different address, as by {@link setEndpoint}; the secrets stay, and with them a rotation under way (R63).
   * Without an endpoint there is no secret to keep. R72: headers open for their address only, so a different one without
   * new headers is refused where there are any.
   */
  setUrl({ url, headers, ...cause }: AddressChange, now: number): void {
    const { endpoint } = this.known;
    if (endpoint === undefined) return;
    const { headers: before, ...kept } = endpoint;
    if (before !== undefined && headers === undefined && url !== endpoint.url) return;
    this.learnUrl(url, now, cause);
    const next = headers ?? before;
    this.set({
      endpoint: { ...kept, url, ...(next === undefined || next === 'none' ? {} : { headers: next }) },
    });
  }

  /** R63. Without an endpoint there is nothing to replace. */
  rotateSecret({ secret, keepOldForMs, ...cause }: Rotation, now: number): void {
    const { endpoint } = this.known;
    if (endpoint === undefined) return;
    this.set({ endpoint: rotate(endpoint, { secret, promoteAt: now + keepOldForMs }) });
    this.note(now, 'secret-rotated', cause);
    this.promoteIfDue(now);
  }

  /** R63. With one secret only there is nothing to promote. */
  promoteSecret(cause: Cause, now: number): void {
    const { endpoint } = this.known;
    if (endpoint?.next === undefined) return;
    this.set({ endpoint: promote(endpoint) });
    this.note(now, 'secret-promoted', cause);
  }

  /** R50: a permit that is out cannot be used any more. */
  removeEndpoint(cause: Cause, now: number): void {
    if (this.known.endpoint === undefined) return;
    const { endpoint: _, ...rest } = this.known;
    this.known = { ...rest, circuit: withoutPermit(this.known.circuit) };
    this.note(now, 'address-removed', cause);
  }

  /** R49. */
  reset(cause: Cause, now: number): void {
    const { drainPausedUntil: _, ...rest } = this.known;
    this.known = { ...rest, circuit: breaker.reset(this.known.circuit) };
    this.note(now, 'reset', cause);
  }

  /** R53: no trial is granted meanwhile, and one that was is withdrawn. Pausing again adds nothing unless it says who or why. */
  pause(cause: Cause, now: number): void {
    if (this.known.paused !== undefined && cause.by === undefined && cause.why === undefined) return;
    this.set({ paused: { ...cause, since: now }, circuit: withoutPermit(this.known.circuit) });
    this.note(now, 'paused', cause);
  }

  /** R53. */
  resume(cause: Cause, now: number): void {
    if (this.known.paused === undefined) return;
    const { paused: _, ...rest } = this.known;
    this.known = rest;
    this.note(now, 'resumed', cause);
  }

  /** R40, R45, R46, R48: what workers have seen, samples before holds. A report that was taken in already changes nothing. */
  report(report: Report, now: number): void {
    if (this.isRepeated(report)) return;
    for (const [at, failed, epoch] of report.samples) this.sample({ at, failed: failed === 1 }, epoch, now);
    for (const { permit, failed } of report.trials) this.concludeTrial(permit, failed, now);
    for (const { at, retryAfterMs } of report.slowDowns) this.slowDown(at, retryAfterMs, now);
    for (const permit of report.unusedPermits) {
      this.set({ circuit: breaker.giveBack(this.known.circuit, permit) });
    }
    this.room = leave(enter(this.room, report.holds, this.policy.room), report.left);
  }

  /** R44, R46, R48, R63: what time alone changes. */
  tick(now: number): void {
    this.promoteIfDue(now);
    const before = this.known.circuit;
    const circuit = breaker.tick(before, now);
    if (circuit !== before) {
      this.set({ circuit });
      this.note(now, before.state === 'open' ? 'trial-due' : 'permit-lost');
    }
    if (this.known.drainPausedUntil !== undefined && now >= this.known.drainPausedUntil) {
      const { drainPausedUntil: _, ...rest } = this.known;
      this.known = rest;
    }
  }

  /** When {@link tick} has something to do next, Unix milliseconds. */
  nextTickAt(): number {
    return Math.min(this.nextCircuitTickAt(), promotionDueAt(this.known.endpoint));
  }

  /** R44: whether a trial is due and somebody waits for it. */
  canGrantTrial(): boolean {
    return this.trialPlace() !== undefined;
  }

  /** R44: gives the permit of this cycle to the delivery whose turn it is, if a trial is due. */
  grantTrial(now: number): { readonly page: WaitingRoom; readonly permit: number } | undefined {
    const { circuit, permits } = this.known;
    const place = this.trialPlace();
    if (place === undefined || !breaker.isTrialDue(circuit)) return undefined;
    const permit = permits + 1;
    this.set({
      circuit: breaker.grant(this.policy.breaker, circuit, place.webhookId, permit, now),
      permits: permit,
    });
    this.room = markReleasing(this.room, [place]);
    return { page: [place], permit };
  }

  /** R46: whether held deliveries may be released now. */
  canDrain(): boolean {
    return this.isDraining() && this.known.drainPausedUntil === undefined;
  }

  beginRelease(size: number): WaitingRoom {
    const { room, page } = beginRelease(this.room, size);
    this.room = room;
    return page;
  }

  endRelease(page: WaitingRoom, reached: number): void {
    this.room = endRelease(this.room, page, reached);
  }

  /** R48: the delivery that was to make the trial has ended: the permit goes to the next. */
  takeBack(permit: number): void {
    this.set({ circuit: breaker.giveBack(this.known.circuit, permit) });
  }

  private learnUrl(url: string, now: number, cause: Cause): void {
    const { lastUrl, endpoint } = this.known;
    const from = lastUrl === undefined ? {} : { from: shownUrl(lastUrl) };
    if (url !== lastUrl) {
      this.set({ circuit: breaker.addressChanged(this.known.circuit), lastUrl: url });
      this.note(now, 'address-set', { ...from, to: shownUrl(url), ...cause });
    } else if (endpoint === undefined) {
      this.note(now, 'address-set', { ...from, to: shownUrl(url), ...cause });
    } else if (cause.by !== undefined || cause.why !== undefined) {
      // A service that sets the same endpoint at each start would push the rest out of the list.
      this.note(now, 'endpoint-set', cause);
    }
  }

  private nextCircuitTickAt(): number {
    const { circuit, drainPausedUntil } = this.known;
    const drainAt = drainPausedUntil ?? Number.POSITIVE_INFINITY;
    if (circuit.state === 'open') return circuit.until;
    if (circuit.state === 'half-open') return circuit.permit?.deadline ?? Number.POSITIVE_INFINITY;
    return drainAt;
  }

  private promoteIfDue(now: number): void {
    if (now < promotionDueAt(this.known.endpoint)) return;
    this.promoteSecret({ why: 'the old secret was kept until now' }, now);
  }

  private trialPlace(): Place | undefined {
    const { circuit, endpoint, paused } = this.known;
    if (endpoint === undefined || paused !== undefined || !breaker.isTrialDue(circuit)) return undefined;
    return trialChoice(this.room);
  }

  private isDraining(): boolean {
    const { circuit, endpoint, paused } = this.known;
    return (
      circuit.state === 'closed' && endpoint !== undefined && paused === undefined && this.room.length > 0
    );
  }

  private viewAt(version: number): GateView {
    const { circuit, openedAt, endpoint, paused, drainPausedUntil, lastFailureAt } = this.known;
    return {
      version,
      epoch: circuit.epoch,
      circuit: viewOf(circuit),
      ...(circuit.state === 'closed' || openedAt === undefined ? {} : { openedAt }),
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(paused === undefined ? {} : { paused }),
      draining: this.isDraining(),
      ...(drainPausedUntil === undefined ? {} : { drainPausedUntil }),
      ...(circuit.state !== 'closed' || lastFailureAt === undefined ? {} : { lastFailureAt }),
    };
  }

  private sample(seen: breaker.Sample, epoch: number, now: number): void {
    const before = this.known.circuit;
    const circuit = breaker.sample(this.policy.breaker, before, seen, epoch, now);
    this.set({ circuit });
    if (circuit !== before && seen.failed) this.tellOfFailure(Math.min(seen.at, now));
    if (circuit.state !== 'open' || before.state !== 'closed') return;
    this.set({ openedAt: now });
    const window = breaker.windowAt(this.policy.breaker, [...before.window, seen], now);
    this.note(now, 'opened', { samples: window.length, failed: window.filter((each) => each.failed).length });
  }

  /** R41: from now on workers tell successes soon. */
  private tellOfFailure(at: number): void {
    const { lastFailureAt = Number.NEGATIVE_INFINITY } = this.known;
    if (at - lastFailureAt >= FAILURES_TOLD_APART_MS) this.set({ lastFailureAt: at });
  }

  private concludeTrial(permit: number, failed: boolean, now: number): void {
    const before = this.known.circuit;
    const circuit = breaker.concludeTrial(this.policy.breaker, before, permit, failed, now);
    if (circuit === before) return;
    this.set({ circuit });
    this.note(now, failed ? 'trial-failed' : 'trial-passed');
  }

  /** R46: a 429 of the trial or during a drain makes the drain wait. */
  private slowDown(at: number, retryAfterMs: number, now: number): void {
    if (!this.isDraining()) return;
    const askedMs = Math.min(retryAfterMs, this.policy.fast.retryAfterCapMs);
    const until = Math.min(at, now) + Math.max(askedMs, this.policy.drain.slowDownMs);
    if (until > now) this.set({ drainPausedUntil: Math.max(until, this.known.drainPausedUntil ?? 0) });
  }

  private isRepeated({ reporter, sequence }: Report): boolean {
    const { reporters } = this.known;
    const newest = reporters.find(([known]) => known === reporter)?.[1] ?? 0;
    if (sequence <= newest) return true;
    const others = reporters.filter(([known]) => known !== reporter);
    this.set({ reporters: [...others, [reporter, sequence] as const].slice(-REPORTERS) });
    return false;
  }

  private note(at: number, event: Transition['event'], facts: Omit<Transition, 'at' | 'event'> = {}): void {
    const transition = { at, event, ...facts };
    this.untold.push(transition);
    this.set({ transitions: [...this.known.transitions, transition].slice(-TRANSITIONS) });
  }

  private set(change: Partial<MerchantSnapshot>): void {
    this.known = { ...this.known, ...change };
  }
}

function withoutPermit(circuit: breaker.Circuit): breaker.Circuit {
  if (circuit.state !== 'half-open' || circuit.permit === undefined) return circuit;
  return breaker.giveBack(circuit, circuit.permit.number);
}

function viewOf(circuit: breaker.Circuit): CircuitView {
  switch (circuit.state) {
    case 'closed':
      return { state: 'closed' };
    case 'open':
      return { state: 'open', until: circuit.until, pause: circuit.pause };
    case 'half-open':
      return {
        state: 'half-open',
        pause: circuit.pause,
        ...(circuit.permit === undefined ? {} : { permit: circuit.permit.number }),
      };
  }
}
