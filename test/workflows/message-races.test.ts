import fc from 'fast-check';
import { expect, test } from 'vitest';
import { askGate, type Endpoint, type GateView } from '../../src/policy/gate.ts';
import { nextCall, noCalls, takeRelease, type GateCalls, type Release } from '../../src/policy/gate-calls.ts';
import { policyWith } from '../../src/policy/policy.ts';
import { unpacked } from '../../src/policy/waiting-room.ts';
import { MerchantState } from '../../src/workflows/merchant-state.ts';
import type { Report } from '../../src/workflows/messages.ts';

/*
 * A model of the message races between deliveries and their merchant's entity, with the real rules of both:
 * every message is in flight until the schedule lets it arrive, in any order; the gate is read from views that
 * may be old; attempts end whenever the schedule says so.
 */

const policy = policyWith({ breaker: { leastSamples: 2 } });
const DELIVERIES = 6;
const endpoint: Endpoint = { url: 'https://m.example/', secret: 'sealed' as Endpoint['secret'] };

/** What a delivery is doing; `posting` has passed the gate. */
type Doing =
  | { readonly is: 'asleep' }
  | { readonly is: 'held' }
  | { readonly is: 'posting'; readonly epoch: number; readonly trial?: number }
  | { readonly is: 'delivered' };

class Model {
  readonly entity = new MerchantState(policy);
  now = 1_000_000;
  private sequence = 0;
  private cached: GateView;
  private readonly reports: Report[] = [];
  private readonly releases: { readonly id: number; readonly release: Release }[] = [];
  private readonly calls: GateCalls[];
  readonly doing: Doing[];

  constructor(deliveries: number) {
    this.calls = Array.from({ length: deliveries }, () => noCalls);
    this.doing = Array.from({ length: deliveries }, () => ({ is: 'asleep' }));
    this.entity.setEndpoint(endpoint, this.now);
    this.entity.viewIfChanged();
    this.cached = this.entity.view();
  }

  /** A ladder pause is over, a held one asks by itself, or a release has come: the delivery calls at the gate. */
  callGate(id: number, fresh: boolean): void {
    const doing = this.doing[id];
    if (doing?.is !== 'asleep' && doing?.is !== 'held') return;
    const { released } = this.calls[id] ?? noCalls;
    const calls = nextCall(this.calls[id] ?? noCalls);
    this.calls[id] = calls;
    const permit = released?.permit;
    const mustBeFresh = fresh || permit !== undefined || this.cached.version < (released?.version ?? 0);
    if (mustBeFresh) this.cached = this.entity.view();
    const answer = askGate(this.cached, {
      held: doing.is === 'held',
      released: released !== undefined,
      ...(permit === undefined ? {} : { permit }),
    });
    if (answer.pass) {
      this.doing[id] = {
        is: 'posting',
        epoch: answer.epoch,
        ...(answer.trial === undefined ? {} : { trial: answer.trial }),
      };
      return;
    }
    this.doing[id] = { is: 'held' };
    this.tell({ holds: [{ webhookId: String(id), call: calls.call, fastFailures: 0, heldSince: this.now }] });
  }

  endAttempt(id: number, failed: boolean): void {
    const doing = this.doing[id];
    if (doing?.is !== 'posting') return;
    if (doing.trial === undefined) this.tell({ samples: [[this.now, failed ? 1 : 0, doing.epoch]] });
    else this.tell({ trials: [{ permit: doing.trial, failed }] });
    this.doing[id] = { is: failed ? 'asleep' : 'delivered' };
  }

  /** A report arrives at the entity; each comes from a worker of its own, so that any may overtake any. */
  deliverReport(nth: number): void {
    const [report] = this.reports.splice(nth % Math.max(1, this.reports.length), 1);
    if (report === undefined) return;
    this.entity.tick(this.now);
    this.entity.report(report, this.now);
    this.entity.viewIfChanged();
  }

  deliverRelease(nth: number): void {
    const [message] = this.releases.splice(nth % Math.max(1, this.releases.length), 1);
    if (message === undefined) return;
    const { id, release } = message;
    const calls = takeRelease(this.calls[id] ?? noCalls, release);
    this.calls[id] = calls;
    if (calls.released !== undefined && this.doing[id]?.is === 'held') this.callGate(id, false);
  }

  /** The entity does what is due: a trial, or a page of the drain. */
  act(): void {
    this.entity.tick(this.now);
    const trial = this.entity.grantTrial(this.now);
    this.entity.viewIfChanged();
    const page = trial?.page ?? (this.entity.canDrain() ? this.entity.beginRelease(2) : []);
    const { version } = this.entity.view();
    for (const { webhookId, call } of page) {
      const release = { call, version, ...(trial === undefined ? {} : { permit: trial.permit }) };
      this.releases.push({ id: Number(webhookId), release });
    }
    this.entity.endRelease(page, page.length);
    this.entity.viewIfChanged();
  }

  reset(): void {
    this.entity.reset({}, this.now);
    this.entity.viewIfChanged();
  }

  /** Trials that are under way with a permit that the entity would still count. */
  currentTrials(): number {
    const { circuit } = this.entity.view();
    const current = circuit.state === 'half-open' ? circuit.permit : undefined;
    return this.doing.filter(
      (doing) => doing.is === 'posting' && doing.trial !== undefined && doing.trial === current,
    ).length;
  }

  /** Held without a place in the room, a release of its call or a registration on its way. */
  forgotten(): number[] {
    const room = unpacked(this.entity.snapshot().room);
    return this.doing.flatMap((doing, id) => {
      if (doing.is !== 'held') return [];
      const call = this.calls[id]?.call;
      const isIn = room.some((place) => place.webhookId === String(id) && place.call === call);
      const isTold = this.reports.some(({ holds }) =>
        holds.some((hold) => hold.webhookId === String(id) && hold.call === call),
      );
      const isWoken = this.releases.some((message) => message.id === id && message.release.call === call);
      return isIn || isTold || isWoken ? [] : [id];
    });
  }

  /** Everything in flight arrives, time passes, the endpoint is well: whoever is left then is stuck. */
  settle(): void {
    for (let round = 0; round < 60 && this.doing.some(({ is }) => is !== 'delivered'); round++) {
      for (const id of this.doing.keys()) {
        this.endAttempt(id, false);
        if (this.doing[id]?.is === 'asleep') this.callGate(id, true);
      }
      while (this.reports.length > 0) this.deliverReport(0);
      this.act();
      while (this.releases.length > 0) this.deliverRelease(0);
      this.now += 60_000;
    }
  }

  private tell(parts: Partial<Report>): void {
    this.sequence += 1;
    this.reports.push({
      reporter: `w${this.sequence}`,
      sequence: this.sequence,
      samples: [],
      trials: [],
      slowDowns: [],
      holds: [],
      left: [],
      unusedPermits: [],
      ...parts,
    });
  }
}

test('R43 R44 R48 R49 however messages overtake each other, none is forgotten, one trial counts, and all are delivered without asking again', () => {
  const id = fc.nat(DELIVERIES - 1);
  // Mostly failing: a breaker that is closed has no races.
  const failed = fc.nat(5).map((outcome) => outcome > 0);
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ do: fc.constant('call' as const), id, fresh: fc.boolean() }) },
    { weight: 5, arbitrary: fc.record({ do: fc.constant('end' as const), id, failed }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('report' as const), nth: fc.nat(5) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('release' as const), nth: fc.nat(5) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('act' as const) }) },
    fc.record({ do: fc.constant('wait' as const), ms: fc.nat(400_000) }),
    fc.record({ do: fc.constant('reset' as const) }),
  );
  let opened = 0;
  fc.assert(
    fc.property(fc.array(step, { minLength: 40, maxLength: 200, size: 'max' }), (steps) => {
      const model = new Model(DELIVERIES);
      for (const each of steps) {
        switch (each.do) {
          case 'call':
            model.callGate(each.id, each.fresh);
            break;
          case 'end':
            model.endAttempt(each.id, each.failed);
            break;
          case 'report':
            model.deliverReport(each.nth);
            break;
          case 'release':
            model.deliverRelease(each.nth);
            break;
          case 'act':
            model.act();
            break;
          case 'wait':
            model.now += each.ms;
            break;
          case 'reset':
            model.reset();
            break;
        }
        if (model.entity.view().circuit.state !== 'closed') opened += 1;
        expect(model.currentTrials()).toBeLessThanOrEqual(1);
        expect(model.forgotten()).toEqual([]);
      }
      model.settle();
      expect(model.doing.filter(({ is }) => is !== 'delivered')).toEqual([]);
    }),
    { numRuns: 1_000 },
  );
  // The schedules do reach what they are about.
  expect(opened).toBeGreaterThan(4_000);
});
