import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { memoryStore, once, type OnceStore } from '../../src/receiver/index.ts';

describe('once', () => {
  test('R64 a key is handled once, however often it comes', async () => {
    const store = memoryStore();
    expect(await once(store, 'a', () => 7)).toEqual({ outcome: 'handled', value: 7 });
    expect(await once(store, 'a', () => 8)).toEqual({ outcome: 'duplicate' });
    expect(await once(store, 'b', () => 9)).toEqual({ outcome: 'handled', value: 9 });
  });

  test('R64 a handler that fails leaves its key free, and its error is told', async () => {
    const store = memoryStore();
    const failing = (): never => {
      throw new Error('the database is away');
    };
    await expect(once(store, 'a', failing)).rejects.toThrow('the database is away');
    await expect(once(store, 'a', async () => await Promise.reject(new Error('again')))).rejects.toThrow(
      'again',
    );
    expect(await once(store, 'a', () => 7)).toEqual({ outcome: 'handled', value: 7 });
  });

  test('R64 whoever comes while it is handled waits, and takes over if the first fails', async () => {
    const store = memoryStore();
    const { promise, reject } = Promise.withResolvers<never>();
    const first = once(store, 'a', async () => await promise);
    const second = once(store, 'a', () => 2);
    const third = once(store, 'a', () => 3);
    reject(new Error('no'));
    await expect(first).rejects.toThrow('no');
    expect([(await second).outcome, (await third).outcome].toSorted()).toEqual(['duplicate', 'handled']);
  });

  test('R64 waiting comes to an end', async () => {
    const store = memoryStore({ waitMs: 1 });
    const { promise, resolve } = Promise.withResolvers<number>();
    const first = once(store, 'a', async () => await promise);
    expect(await once(store, 'a', () => 2)).toEqual({ outcome: 'busy' });
    resolve(1);
    expect(await first).toEqual({ outcome: 'handled', value: 1 });
    expect(await once(store, 'a', () => 2)).toEqual({ outcome: 'duplicate' });
  });

  test('the memory store is bounded: the oldest keys are forgotten, those under way are not', async () => {
    const store = memoryStore({ size: 2, waitMs: 1 });
    for (const key of ['a', 'b', 'c']) await once(store, key, () => undefined);
    expect(await once(store, 'c', () => 1)).toEqual({ outcome: 'duplicate' });
    expect(await once(store, 'a', () => 1)).toEqual({ outcome: 'handled', value: 1 });
    const { promise, resolve } = Promise.withResolvers<void>();
    const underWay = [once(store, 'x', () => promise), once(store, 'y', () => promise)];
    expect(await once(store, 'z', () => 1)).toEqual({ outcome: 'busy' });
    resolve();
    expect(await Promise.all(underWay)).toMatchObject([{ outcome: 'handled' }, { outcome: 'handled' }]);
  });

  test('R64 what cannot be marked as done is an error, and the first error is the one that tells', async () => {
    const store = (claim: { done?: () => void; release?: () => void }): OnceStore => ({
      claim: async () => ({ tx: undefined, done: () => undefined, release: () => undefined, ...claim }),
    });
    const fail = (message: string) => (): never => {
      throw new Error(message);
    };
    await expect(once(store({ done: fail('no commit') }), 'a', () => 1)).rejects.toThrow('no commit');
    const failing = once(store({ release: fail('no rollback') }), 'a', fail('the handler'));
    await expect(failing).rejects.toThrow('the handler');
  });

  test('R64 in any order of calls and failures, no key has two handlers at once, or one after it was done', async () => {
    const call = fc.record({ key: fc.constantFrom('a', 'b', 'c'), fails: fc.boolean(), turns: fc.nat(4) });
    await fc.assert(
      fc.asyncProperty(fc.array(call, { maxLength: 20 }), async (calls) => {
        const store = memoryStore();
        const [running, handled] = [new Set<string>(), new Set<string>()];
        let violations = 0;
        const run = async ({ key, fails, turns }: (typeof calls)[number]): Promise<string> =>
          await once(store, key, async () => {
            if (running.has(key) || handled.has(key)) violations += 1;
            running.add(key);
            for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
            running.delete(key);
            if (fails) throw new Error('no');
            handled.add(key);
          }).then(
            ({ outcome }) => outcome,
            (error: Error) => error.message,
          );
        const outcomes = await Promise.all(calls.map(run));
        expect(violations).toBe(0);
        for (const [nth, { key }] of calls.entries()) {
          expect(outcomes[nth]).not.toBe('busy');
          if (outcomes[nth] === 'duplicate') expect(handled.has(key)).toBe(true);
        }
      }),
    );
  });
});
