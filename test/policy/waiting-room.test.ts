import fc from 'fast-check';
import { expect, test } from 'vitest';
import { defaultPolicy } from '../../src/policy/policy.ts';
import {
  beginRelease,
  endRelease,
  enter as enterWithin,
  leave,
  markReleasing,
  packed,
  trialChoice,
  unpacked,
  type PackedRoom,
  type Place,
  type WaitingRoom,
} from '../../src/policy/waiting-room.ts';

const place = (webhookId: string, heldSince: number, call = 1): Place => ({
  webhookId,
  call,
  fastFailures: 0,
  heldSince,
});
const ids = (room: WaitingRoom) => room.map(({ webhookId }) => webhookId);
const limits = defaultPolicy.room;
const enter = (room: WaitingRoom, hold: Place) => enterWithin(room, [hold], limits);
const roomOf = (...places: Place[]) => places.reduce<WaitingRoom>(enter, []);

test('R46 the longest held stands first, whatever order they register in', () => {
  expect(ids(roomOf(place('b', 20), place('c', 30), place('a', 10)))).toEqual(['a', 'b', 'c']);
});

test('R47 asking again keeps the first place and takes the newer call', () => {
  const room = enter(roomOf(place('a', 10), place('b', 20)), place('a', 50, 2));
  expect(room.map(({ webhookId, call, heldSince }) => [webhookId, call, heldSince])).toEqual([
    ['a', 2, 10],
    ['b', 1, 20],
  ]);
});

test('R47 a registration that was overtaken by a newer one changes nothing', () => {
  const room = roomOf(place('a', 10, 3));
  expect(enter(room, place('a', 5, 2))).toBe(room);
});

test('R46 a page that was broken off leaves the rest in their places', () => {
  const { room, page } = beginRelease(roomOf(place('a', 1), place('b', 2), place('c', 3)), 2);
  expect(ids(page)).toEqual(['a', 'b']);
  expect(endRelease(room, page, 1)).toEqual([place('b', 2), place('c', 3)]);
});

test('R50 one that registers anew while it is being released stays', () => {
  const { room, page } = beginRelease(roomOf(place('a', 1)), 1);
  expect(ids(endRelease(enter(room, place('a', 9, 2)), page, 1))).toEqual(['a']);
});

test('R51 holds that come in one report enter as if one came after the other', () => {
  const hold = fc.record({ id: fc.nat(20), since: fc.nat(20), call: fc.integer({ min: 1, max: 4 }) });
  fc.assert(
    fc.property(fc.array(hold), fc.array(hold), fc.integer({ min: 1, max: 30 }), (before, after, places) => {
      const toPlaces = (holds: typeof before) =>
        holds.map(({ id, since, call }) => place(`w${id}`, since, call));
      const within = { places, bytes: 1e6 };
      const room = enterWithin([], toPlaces(before), { places: 100, bytes: 1e6 });
      const atOnce = enterWithin(room, toPlaces(after), { places: 100, bytes: 1e6 });
      const oneByOne = toPlaces(after).reduce((known, each) => enter(known, each), room);
      expect(atOnce).toEqual(oneByOne);
      // In a full room the longest held stay, as many as fit.
      expect(enterWithin(room, toPlaces(after), within)).toEqual(
        toPlaces(after).some(
          (each) => (room.find(({ webhookId }) => webhookId === each.webhookId)?.call ?? 0) < each.call,
        )
          ? atOnce.slice(0, places)
          : room,
      );
    }),
  );
});

test('R82 one that has ended leaves at once', () => {
  expect(ids(leave(roomOf(place('a', 1), place('b', 2)), ['a']))).toEqual(['b']);
});

test('R51 a full room keeps the longest held, by number and by bytes', () => {
  const held = [place('d', 40), place('b', 20), place('c', 30), place('a', 10)];
  const fill = (within: typeof limits) =>
    held.reduce<WaitingRoom>((room, hold) => enterWithin(room, [hold], within), []);
  expect(ids(fill({ places: 2, bytes: 400_000 }))).toEqual(['a', 'b']);
  expect(ids(fill({ places: 10, bytes: 100 }))).toEqual(['a', 'b', 'c']);
});

test('R51 a full room is carried from run to run in no more bytes than its bound, and comes back as it was', () => {
  const uuid = '0193764b-0000-7000-8000-00000000';
  const within = { places: 10_000, bytes: 20_000 };
  let room: WaitingRoom = [];
  for (let index = 0; index < 1_000; index++) {
    const hold = { webhookId: uuid + index, call: 99, fastFailures: 9, heldSince: 1_796_052_280_833 + index };
    room = enterWithin(room, [hold], within);
  }
  const [first] = room;
  if (first !== undefined) room = markReleasing(room, [first]);
  const json = JSON.stringify(packed(room));
  expect(json.length).toBeLessThanOrEqual(20_000);
  expect(json.length).toBeGreaterThan(18_000);
  expect(unpacked(JSON.parse(json) as PackedRoom)).toEqual(room);
});

test('R44 the trial is made by the one with the fewest fast failures, among these the longest held', () => {
  const failed = (webhookId: string, heldSince: number, fastFailures: number) => ({
    ...place(webhookId, heldSince),
    fastFailures,
  });
  const room = roomOf(failed('poison', 1, 9), failed('late', 30, 0), failed('early', 20, 0));
  expect(trialChoice(room)?.webhookId).toBe('early');
  expect(trialChoice(beginRelease(room, 2).room)?.webhookId).toBe('late');
  expect(trialChoice([])).toBeUndefined();
});

test('R46 R51 whatever happens, nobody is forgotten or doubled, and the order is that of held-since', () => {
  const action = fc.oneof(
    fc.record({ do: fc.constant('enter' as const), id: fc.nat(8), at: fc.nat(100) }),
    fc.record({ do: fc.constant('leave' as const), id: fc.nat(8) }),
    fc.record({ do: fc.constant('begin' as const), size: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ do: fc.constant('end' as const), reached: fc.nat(4) }),
  );
  fc.assert(
    fc.property(fc.array(action, { maxLength: 60 }), (actions) => {
      let room: WaitingRoom = [];
      let page: WaitingRoom | undefined;
      const calls = new Map<string, number>();
      const waiting = new Map<string, number>();
      for (const step of actions) {
        room = JSON.parse(JSON.stringify(room)) as WaitingRoom;
        if (step.do === 'enter') {
          const id = `w${step.id}`;
          const call = (calls.get(id) ?? 0) + 1;
          calls.set(id, call);
          waiting.set(id, call);
          room = enter(room, place(id, step.at, call));
        } else if (step.do === 'leave') {
          waiting.delete(`w${step.id}`);
          room = leave(room, [`w${step.id}`]);
        } else if (step.do === 'begin' && page === undefined) {
          ({ room, page } = beginRelease(room, step.size));
        } else if (step.do === 'end' && page !== undefined) {
          for (const { webhookId, call } of page.slice(0, step.reached)) {
            if (waiting.get(webhookId) === call) waiting.delete(webhookId);
          }
          room = endRelease(room, page, step.reached);
          page = undefined;
          expect(room.some(({ releasing }) => releasing)).toBe(false);
        }
        expect(ids(room).toSorted()).toEqual([...waiting.keys()].toSorted());
        expect(room.map(({ heldSince }) => heldSince)).toEqual(
          room.map(({ heldSince }) => heldSince).toSorted((a, b) => a - b),
        );
      }
    }),
  );
});
