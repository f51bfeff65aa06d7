import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { SealedSecret } from '../../src/policy/gate.ts';
import { policyWith } from '../../src/policy/policy.ts';
import { MerchantState, recovered, type MerchantSnapshot } from '../../src/workflows/merchant-state.ts';

const policy = policyWith({});
const START = 1_000_000;
const HOUR = 3_600_000;
const secret = (name: string) => name as SealedSecret;
const rotation = (name: string, keepOldForMs = HOUR) => ({ secret: secret(name), keepOldForMs });
const endpoint = (name: string) => ({ url: 'https://a.example/', secret: secret(name) });

function merchantWith(name: string): MerchantState {
  const state = new MerchantState(policy);
  state.setEndpoint(endpoint(name), START);
  return state;
}
const secretsOf = (state: MerchantState) => {
  const { endpoint: known } = state.view();
  return known && [known.secret, ...(known.next === undefined ? [] : [known.next.secret])];
};
const events = (state: MerchantState) =>
  state.snapshot().transitions.map(({ event, by, why }) => [event, by, why]);

test('R63 two secrets sign until an operator promotes the new one; who and why are kept', () => {
  const state = merchantWith('old');
  state.rotateSecret({ ...rotation('new'), by: 'ann', why: 'yearly' }, START + 1);
  expect(secretsOf(state)).toEqual(['old', 'new']);
  state.promoteSecret({ by: 'bob' }, START + 2);
  expect(secretsOf(state)).toEqual(['new']);
  expect(events(state)).toEqual([
    ['address-set', undefined, undefined],
    ['secret-rotated', 'ann', 'yearly'],
    ['secret-promoted', 'bob', undefined],
  ]);
});

test('R63 the old secret is dropped by itself when its time ends, not a millisecond earlier', () => {
  const state = merchantWith('old');
  state.rotateSecret(rotation('new'), START);
  expect(state.nextTickAt()).toBe(START + HOUR);
  state.tick(START + HOUR - 1);
  expect(secretsOf(state)).toEqual(['old', 'new']);
  state.tick(START + HOUR);
  expect(secretsOf(state)).toEqual(['new']);
  expect(state.nextTickAt()).toBe(Number.POSITIVE_INFINITY);
});

test('R63 another rotation replaces the new secret and begins its time anew; the old one stays', () => {
  const state = merchantWith('old');
  state.rotateSecret(rotation('new'), START);
  state.rotateSecret(rotation('newer'), START + 10);
  expect(secretsOf(state)).toEqual(['old', 'newer']);
  state.tick(START + HOUR);
  expect(secretsOf(state)).toEqual(['old', 'newer']);
  state.tick(START + HOUR + 10);
  expect(secretsOf(state)).toEqual(['newer']);
});

test('R63 a leaked secret is replaced at once', () => {
  const state = merchantWith('old');
  state.rotateSecret(rotation('new', 0), START);
  expect(secretsOf(state)).toEqual(['new']);
});

test('R63 R53 the time ends also while the merchant is paused or its breaker is open', () => {
  const state = merchantWith('old');
  state.rotateSecret(rotation('new', 100), START);
  const samples = Array.from({ length: 5 }, () => [START, 1, state.view().epoch] as const);
  const nothing = { trials: [], slowDowns: [], holds: [], left: [], unusedPermits: [] };
  state.report({ reporter: 'r', sequence: 1, samples, ...nothing }, START);
  state.pause({}, START);
  expect(state.view().circuit.state).toBe('open');
  expect(state.nextTickAt()).toBe(START + 100);
  state.tick(START + 100);
  expect(secretsOf(state)).toEqual(['new']);
});

test('R63 R50 R51 R52 whatever interleaves, over continue-as-new and loss, the secrets are those of the rules', () => {
  const name = fc.constantFrom('a', 'b', 'c', 'd');
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant('rotate' as const), name, keepMs: fc.nat(1_000) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('promote' as const) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.nat(700) }) },
    fc.record({ do: fc.constant('sleep' as const) }),
    { weight: 2, arbitrary: fc.record({ do: fc.constant('set' as const), name }) },
    fc.record({ do: fc.constant('move' as const), host: fc.constantFrom('a', 'b') }),
    fc.record({ do: fc.constant('remove' as const) }),
    fc.record({ do: fc.constant('lose' as const) }),
    fc.record({ do: fc.constant('reset' as const) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let state = new MerchantState(policy);
      let now = START;
      let model: { old: string; next?: { name: string; until: number } } | undefined;
      const pass = (until: number) => {
        now = until;
        if (model?.next !== undefined && now >= model.next.until) model = { old: model.next.name };
        state.tick(now);
      };
      for (const each of steps) {
        const { version } = state.view();
        const before = JSON.stringify(state.view());
        pass(now + 1);
        switch (each.do) {
          case 'rotate':
            state.rotateSecret(rotation(each.name, each.keepMs), now);
            if (model === undefined) break;
            model = { ...model, next: { name: each.name, until: now + each.keepMs } };
            pass(now);
            break;
          case 'promote':
            state.promoteSecret({}, now);
            if (model?.next !== undefined) model = { old: model.next.name };
            break;
          case 'wait':
            pass(now + each.ms);
            break;
          case 'sleep':
            // As the entity does: until there is something to do, by itself.
            if (Number.isFinite(state.nextTickAt())) pass(state.nextTickAt());
            expect(secretsOf(state)?.length).not.toBe(2);
            break;
          case 'set':
            state.setEndpoint(endpoint(each.name), now);
            model = { old: each.name };
            break;
          case 'move':
            // Secrets stay, also those of a rotation.
            state.setUrl({ url: `https://${each.host}.example/` }, now);
            break;
          case 'remove':
            state.removeEndpoint({}, now);
            model = undefined;
            break;
          case 'lose':
            state = new MerchantState(policy, recovered(state.view(), now));
            break;
          case 'reset':
            state.reset({}, now);
            break;
        }
        expect(secretsOf(state)).toEqual(
          model && [model.old, ...(model.next === undefined ? [] : [model.next.name])],
        );
        expect(state.view().endpoint?.next?.promoteAt).toBe(model?.next?.until);
        expect(state.nextTickAt()).toBe(model?.next?.until ?? Number.POSITIVE_INFINITY);
        // What the gate shows has changed exactly if its version has.
        if (each.do !== 'lose') {
          const changed = JSON.stringify(state.view()) !== before;
          expect(state.viewIfChanged()?.version).toBe(changed ? version + 1 : undefined);
        }
        state = new MerchantState(policy, JSON.parse(JSON.stringify(state.snapshot())) as MerchantSnapshot);
      }
    }),
    { numRuns: 500 },
  );
});
