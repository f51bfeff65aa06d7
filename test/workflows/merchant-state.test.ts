import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Endpoint } from '../../src/policy/gate.ts';
import { askGate } from '../../src/policy/gate.ts';
import { policyWith } from '../../src/policy/policy.ts';
import { unpacked } from '../../src/policy/waiting-room.ts';
import { MerchantState, recovered, type MerchantSnapshot } from '../../src/workflows/merchant-state.ts';
import { merchantStatus } from '../../src/workflows/merchant-words.ts';
import type { Report } from '../../src/workflows/messages.ts';

const policy = policyWith({ room: { places: 1_000 } });
const START = 1_000_000;
const endpoint = (host = 'a'): Endpoint => ({
  url: `https://${host}.example/`,
  secret: 'sealed' as Endpoint['secret'],
});

let sequence = 0;
function report(parts: Partial<Report>): Report {
  return {
    reporter: 'r',
    sequence: ++sequence,
    samples: [],
    trials: [],
    slowDowns: [],
    holds: [],
    left: [],
    unusedPermits: [],
    ...parts,
  };
}
const failures = (count: number, at: number, epoch: number) =>
  report({ samples: Array.from({ length: count }, (_, index) => [at + index, 1, epoch] as const) });
const hold = (webhookId: string, heldSince: number, call = 1, fastFailures = 0) => ({
  webhookId,
  call,
  fastFailures,
  heldSince,
});

function openMerchant(): MerchantState {
  const state = new MerchantState(policy);
  state.setEndpoint(endpoint(), START);
  state.report(failures(5, START, state.view().epoch), START + 10);
  return state;
}

describe('a merchant', () => {
  test('R44 open and quiet: holds arrive, nothing else is said, and the trial is given when the pause ends', () => {
    const state = openMerchant();
    const { circuit } = state.view();
    if (circuit.state !== 'open') throw new Error('not open');
    expect(state.nextTickAt()).toBe(circuit.until);
    state.report(report({ holds: [hold('w', START + 20)] }), START + 30);
    expect(state.nextTickAt()).toBe(circuit.until);
    state.tick(circuit.until);
    expect(state.grantTrial(circuit.until)).toMatchObject({ page: [{ webhookId: 'w' }], permit: 1 });
    expect(state.grantTrial(circuit.until)).toBeUndefined();
  });

  test('R44 when nobody waits at the end of the pause, the next that asks makes the trial', () => {
    const state = openMerchant();
    const at = state.nextTickAt();
    state.tick(at);
    expect(state.grantTrial(at)).toBeUndefined();
    state.report(report({ holds: [hold('late', at + 1)] }), at + 2);
    expect(state.grantTrial(at + 2)).toMatchObject({ page: [{ webhookId: 'late' }] });
  });

  test('R50 a hold that arrives as the breaker closes is released at once', () => {
    const state = openMerchant();
    state.reset({}, START + 20);
    expect(state.canDrain()).toBe(false);
    state.report(report({ holds: [hold('w', START)] }), START + 30);
    expect(state.canDrain()).toBe(true);
  });

  test('R40 a repeated report counts once', () => {
    const state = new MerchantState(policy);
    state.setEndpoint(endpoint(), START);
    const four = failures(4, START, state.view().epoch);
    state.report(four, START + 10);
    state.report(four, START + 11);
    expect(state.view().circuit.state).toBe('closed');
  });

  test('R41 tells workers of failures once a minute, so that they tell the successes beside them', () => {
    const state = new MerchantState(policy);
    state.setEndpoint(endpoint(), START);
    const { epoch } = state.view();
    const told = [0, 59_999, 60_000, 400_000].map((after) => {
      const at = START + after;
      state.report(report({ samples: [[at - 1, 0, epoch]] }), at);
      state.report(report({ samples: [[at, 1, epoch]] }), at);
      const answer = askGate(state.viewIfChanged() ?? state.view(), { held: false, released: false });
      return answer.pass ? answer.lastFailureAt : 'held';
    });
    expect(told).toEqual([START, START, START + 60_000, START + 400_000]);
    state.report(report({ samples: [[START + 900_000, 1, epoch - 1]] }), START + 900_000);
    expect(state.viewIfChanged()).toBeUndefined();
  });

  test('R48 R49 a permit that a reset overtook is of no use, nor is its verdict', () => {
    const state = openMerchant();
    const at = state.nextTickAt();
    state.report(report({ holds: [hold('w', START)] }), at);
    state.tick(at);
    const trial = state.grantTrial(at);
    state.reset({ by: 'ann' }, at + 1);
    state.report(report({ trials: [{ permit: trial?.permit ?? 0, failed: true }] }), at + 2);
    expect(state.view().circuit.state).toBe('closed');
  });

  test('R50 B12 an address that is removed withdraws the permit; a different one makes the trial due and keeps the doubling', () => {
    const state = openMerchant();
    const at = state.nextTickAt();
    state.report(report({ holds: [hold('w', START), hold('x', START + 1)] }), at);
    state.tick(at);
    state.grantTrial(at);
    state.removeEndpoint({}, at + 1);
    expect(state.canGrantTrial()).toBe(false);
    expect(state.view()).toMatchObject({ circuit: { state: 'half-open', pause: 1 } });
    state.setEndpoint(endpoint('b'), at + 2);
    const trial = state.grantTrial(at + 2);
    state.report(report({ trials: [{ permit: trial?.permit ?? 0, failed: true }] }), at + 3);
    expect(state.view().circuit).toMatchObject({ state: 'open', pause: 2 });
  });

  test('R46 a 429 in the drain pauses it for at least 30 s and at most an hour, elsewhere it does nothing', () => {
    const state = openMerchant();
    state.report(report({ slowDowns: [{ at: START + 15, retryAfterMs: 0 }] }), START + 15);
    expect(state.view()).not.toHaveProperty('drainPausedUntil');
    state.report(report({ holds: [hold('w', START), hold('x', START)] }), START + 20);
    state.reset({}, START + 30);
    state.report(report({ slowDowns: [{ at: START + 40, retryAfterMs: 1e12 }] }), START + 40);
    expect(state.view()).toMatchObject({ draining: true, drainPausedUntil: START + 40 + 3_600_000 });
    expect(state.canDrain()).toBe(false);
    state.tick(state.nextTickAt());
    expect(state.canDrain()).toBe(true);
  });

  test('R53 pausing withdraws the permit and grants none; resuming goes on where it was', () => {
    const state = openMerchant();
    const at = state.nextTickAt();
    state.report(report({ holds: [hold('w', START), hold('x', START)] }), at);
    state.tick(at);
    state.grantTrial(at);
    state.pause({ by: 'ann', why: 'maintenance' }, at + 1);
    expect([state.canGrantTrial(), state.view().paused]).toEqual([
      false,
      { by: 'ann', why: 'maintenance', since: at + 1 },
    ]);
    state.resume({}, at + 2);
    expect(state.canGrantTrial()).toBe(true);
  });

  test('R52 a lost entity goes on from its last view, in a new epoch', () => {
    const view = openMerchant().view();
    const again = new MerchantState(policy, recovered(view, START + 50));
    expect(again.view()).toMatchObject({
      circuit: view.circuit,
      endpoint: view.endpoint,
      epoch: view.epoch + 1,
    });
    expect(again.snapshot().transitions).toEqual([{ at: START + 50, event: 'recovered' }]);
  });

  test('R48 R52 the verdict of a permit that an entity gave before it was lost does not count', () => {
    const lost = openMerchant();
    const at = lost.nextTickAt();
    lost.report(report({ holds: [hold('w', START)] }), at);
    lost.tick(at);
    const before = lost.grantTrial(at);
    const again = new MerchantState(policy, recovered(lost.view(), at + 1));
    again.report(report({ holds: [hold('x', START)] }), at + 2);
    const after = again.grantTrial(at + 2);
    again.report(report({ trials: [{ permit: before?.permit ?? 0, failed: true }] }), at + 3);
    expect(again.view().circuit).toMatchObject({ state: 'half-open', permit: after?.permit });
  });

  test('R50 an address that is set again after it was removed is remembered', () => {
    const state = openMerchant();
    const { url = '' } = state.view().endpoint ?? {};
    state.removeEndpoint({ by: 'ann' }, START + 10);
    state.setEndpoint({ ...endpoint(), url }, START + 20, { by: 'bob' });
    expect(state.snapshot().transitions.slice(-2)).toEqual([
      { at: START + 10, event: 'address-removed', by: 'ann' },
      { at: START + 20, event: 'address-set', from: url, to: url, by: 'bob' },
    ]);
  });

  test('R50 R63 an address that moves keeps both secrets, makes the trial due, and is remembered without user and query', () => {
    const state = openMerchant();
    state.rotateSecret({ secret: 'next' as Endpoint['secret'], keepOldForMs: 1_000_000 }, START + 10);
    const url = 'https://user:password@b.example/hooks?token=1#x';
    state.setUrl({ url, by: 'ann', why: 'they moved' }, START + 20);
    expect(state.view()).toMatchObject({
      circuit: { state: 'half-open' },
      endpoint: { url, secret: 'sealed', next: { secret: 'next', promoteAt: START + 1_000_010 } },
    });
    expect(state.snapshot().transitions.at(-1)).toEqual({
      at: START + 20,
      event: 'address-set',
      from: 'https://a.example/',
      to: 'https://b.example/hooks',
      by: 'ann',
      why: 'they moved',
    });
  });

  test('R50 R72 headers stay with their address: another one needs them anew, or none', () => {
    const headers = (values: string) => ({ names: ['x-a'], values: values as Endpoint['secret'] });
    const state = new MerchantState(policy);
    state.setUrl({ url: 'https://a.example/' }, START);
    expect(state.view().endpoint).toBeUndefined();
    state.setEndpoint({ ...endpoint(), headers: headers('a') }, START);
    state.setUrl({ url: 'https://a.example/' }, START + 1);
    expect(state.view().endpoint).toEqual({ ...endpoint(), headers: headers('a') });
    state.setUrl({ url: 'https://b.example/' }, START + 2);
    expect(state.view().endpoint).toEqual({ ...endpoint(), headers: headers('a') });
    state.setUrl({ url: 'https://b.example/', headers: headers('b') }, START + 3);
    expect(state.view().endpoint).toEqual({ ...endpoint('b'), headers: headers('b') });
    state.setUrl({ url: 'https://c.example/', headers: 'none' }, START + 4);
    expect(state.view().endpoint).toEqual(endpoint('c'));
  });

  test('R53 pausing again without saying who and why keeps who paused first', () => {
    const state = openMerchant();
    state.pause({ by: 'ann' }, START + 10);
    state.pause({}, START + 20);
    expect(state.view().paused).toEqual({ by: 'ann', since: START + 10 });
  });

  test('R41 what it tells of its window is of the time of the question', () => {
    const state = new MerchantState(policy);
    state.report(report({ samples: [[START, 1, 0]] }), START);
    expect(merchantStatus('m', state, policy, START + 299_999)).toMatchObject({ samples: 1, failed: 1 });
    expect(merchantStatus('m', state, policy, START + 300_000)).toMatchObject({ samples: 0, failed: 0 });
  });
});

test('R44 R46 R48 R51 whatever interleaves, no delivery is forgotten, order is kept, there is one permit, and the gate agrees', () => {
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant('hold' as const), id: fc.nat(9), since: fc.nat(500) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('fail' as const),
        count: fc.integer({ min: 1, max: 5 }),
        stale: fc.boolean(),
      }),
    },
    fc.record({ do: fc.constant('leave' as const), id: fc.nat(9) }),
    { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.nat(2_000_000) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('grant' as const) }) },
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant('conclude' as const), failed: fc.boolean(), back: fc.nat(2) }),
    },
    fc.record({ do: fc.constant('drain' as const), reached: fc.nat(4) }),
    fc.record({ do: fc.constant('slow' as const) }),
    fc.record({ do: fc.constant('reset' as const) }),
    fc.record({ do: fc.constant('pause' as const) }),
    fc.record({ do: fc.constant('resume' as const) }),
    fc.record({ do: fc.constant('address' as const), host: fc.constantFrom('a', 'b', undefined) }),
    fc.record({ do: fc.constant('move' as const), host: fc.constantFrom('a', 'b') }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      let state = new MerchantState(policy);
      let now = START;
      let permit = 0;
      /** Deliveries that were refused and neither woken nor ended since, by the call that was refused. */
      const waiting = new Map<string, number>();
      const calls = new Map<string, number>();
      for (const each of steps) {
        now += 7;
        state = new MerchantState(policy, JSON.parse(JSON.stringify(state.snapshot())) as MerchantSnapshot);
        state.tick(now);
        switch (each.do) {
          case 'hold': {
            const id = `w${each.id}`;
            const call = (calls.get(id) ?? 0) + 1;
            calls.set(id, call);
            waiting.set(id, call);
            state.report(report({ holds: [hold(id, now - each.since, call)] }), now);
            break;
          }
          case 'leave':
            waiting.delete(`w${each.id}`);
            state.report(report({ left: [`w${each.id}`] }), now);
            break;
          case 'fail': {
            const before = state.view();
            state.report(failures(each.count, now, before.epoch - (each.stale ? 1 : 0)), now);
            if (each.stale) expect(state.view()).toEqual(before);
            break;
          }
          case 'wait':
            now += each.ms;
            state.tick(now);
            break;
          case 'grant': {
            const trial = state.grantTrial(now);
            if (trial === undefined) break;
            expect(trial.permit).toBe(permit + 1);
            permit = trial.permit;
            expect(state.canGrantTrial()).toBe(false);
            for (const { webhookId, call } of trial.page)
              if (waiting.get(webhookId) === call) waiting.delete(webhookId);
            state.endRelease(trial.page, trial.page.length);
            break;
          }
          case 'conclude': {
            const before = state.view().circuit;
            state.report(report({ trials: [{ permit: permit - each.back, failed: each.failed }] }), now);
            const isCurrent = before.state === 'half-open' && before.permit === permit - each.back;
            if (!isCurrent) expect(state.view().circuit).toEqual(before);
            break;
          }
          case 'drain': {
            if (!state.canDrain()) break;
            const page = state.beginRelease(3);
            const since = page.map(({ heldSince }) => heldSince);
            expect(since).toEqual(since.toSorted((a, b) => a - b));
            for (const { webhookId, call } of page.slice(0, each.reached)) {
              if (waiting.get(webhookId) === call) waiting.delete(webhookId);
            }
            state.endRelease(page, each.reached);
            break;
          }
          case 'slow':
            state.report(report({ slowDowns: [{ at: now, retryAfterMs: 0 }] }), now);
            break;
          case 'reset':
            state.reset({}, now);
            expect(state.view().circuit.state).toBe('closed');
            break;
          case 'pause':
            state.pause({}, now);
            break;
          case 'resume':
            state.resume({}, now);
            break;
          case 'address':
            if (each.host === undefined) state.removeEndpoint({}, now);
            else state.setEndpoint(endpoint(each.host), now);
            break;
          case 'move':
            state.setUrl({ url: endpoint(each.host).url }, now);
            break;
        }
        state.viewIfChanged();
        const room = unpacked(state.snapshot().room);
        expect(room.map(({ webhookId }) => webhookId).toSorted()).toEqual([...waiting.keys()].toSorted());
        const order = room.map(({ heldSince }) => heldSince);
        expect(order).toEqual(order.toSorted((a, b) => a - b));
        // Nobody waits for nothing: there is something to do now, a moment at which there will be, or somebody must act.
        const view = state.view();
        const mustAct = view.endpoint === undefined || view.paused !== undefined;
        const trialOut = view.circuit.state === 'half-open' && view.circuit.permit !== undefined;
        if (room.length > 0 && !mustAct) {
          expect(
            state.canDrain() || state.canGrantTrial() || trialOut || Number.isFinite(state.nextTickAt()),
          ).toBe(true);
        }
        if (trialOut) expect(Number.isFinite(state.nextTickAt())).toBe(true);
        const fresh = askGate(view, { held: false, released: false });
        if (fresh.pass) expect([view.circuit.state, mustAct]).toEqual(['closed', false]);
      }
    }),
    { numRuns: 300 },
  );
});
