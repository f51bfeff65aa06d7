import { expect, test } from 'vitest';
import { askGate, type Endpoint, type GateView } from '../../src/policy/gate.ts';

const endpoint: Endpoint = { url: 'https://merchant.example/hooks', secret: 'sealed' as Endpoint['secret'] };
const view = (changes: Partial<GateView> = {}) =>
  ({
    version: 1,
    epoch: 1,
    circuit: { state: 'closed' },
    endpoint,
    draining: false,
    ...changes,
  }) satisfies GateView;
const fresh = { held: false, released: false };
const held = { held: true, released: false };

test('R50 without an entity or without an address a delivery is held', () => {
  expect(askGate(undefined, fresh)).toEqual({ pass: false, reason: 'no-endpoint' });
  const { endpoint: _, ...addressless } = view();
  expect(askGate(addressless, fresh)).toEqual({ pass: false, reason: 'no-endpoint' });
  expect(askGate(addressless, { held: true, released: true })).toEqual({
    pass: false,
    reason: 'no-endpoint',
  });
});

test('R50 with an address it passes and learns the epoch', () => {
  expect(askGate(view({ epoch: 7 }), fresh)).toEqual({ pass: true, endpoint, epoch: 7 });
});

test('R46 during a drain one that is held stays until it is released, one never held goes at once', () => {
  expect(askGate(view({ draining: true }), held)).toEqual({ pass: false, reason: 'draining' });
  expect(askGate(view({ draining: true }), { held: true, released: true })).toMatchObject({ pass: true });
  expect(askGate(view({ draining: true }), fresh)).toMatchObject({ pass: true });
});

test('R43 while the breaker is not closed everybody is held, fresh ones too, and is told until when', () => {
  const open = view({ circuit: { state: 'open', until: 5_000, pause: 1 } });
  expect(askGate(open, fresh)).toEqual({ pass: false, reason: 'breaker', until: 5_000 });
  expect(askGate(open, { held: true, released: true })).toMatchObject({ pass: false, reason: 'breaker' });
  expect(askGate(view({ circuit: { state: 'half-open', pause: 1 } }), fresh)).toMatchObject({ pass: false });
});

test('R44 R48 only the current permit passes a half-open breaker, as a trial', () => {
  const halfOpen = view({ circuit: { state: 'half-open', pause: 1, permit: 7 } });
  expect(askGate(halfOpen, { ...held, permit: 7 })).toEqual({ pass: true, endpoint, epoch: 1, trial: 7 });
  expect(askGate(halfOpen, { ...held, permit: 6 })).toEqual({ pass: false, reason: 'breaker' });
  expect(askGate(view(), { held: true, released: true, permit: 6 })).toEqual({
    pass: true,
    endpoint,
    epoch: 1,
  });
});

test('R46 while a 429 slows the drain down, fresh ones are held too', () => {
  const slow = view({ draining: true, drainPausedUntil: 9_000 });
  expect(askGate(slow, fresh)).toEqual({ pass: false, reason: 'draining', until: 9_000 });
});

test('R53 a pause holds everybody, and is the first reason that applies', () => {
  const paused = view({ paused: { since: 1 }, circuit: { state: 'half-open', pause: 1, permit: 7 } });
  expect(askGate(paused, { ...held, permit: 7 })).toEqual({ pass: false, reason: 'paused' });
});
