import { expect, test } from 'vitest';
import { askGate, type Endpoint, type GateView } from '../../src/policy/gate.ts';

const endpoint: Endpoint = { url: 'https://merchant.example/hooks', secret: 'sealed' as Endpoint['secret'] };
const view = (changes: Partial<GateView> = {}): GateView => ({
  version: 1,
  epoch: 1,
  endpoint,
  draining: false,
  ...changes,
});
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
