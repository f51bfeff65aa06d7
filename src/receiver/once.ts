/** The right to handle a key, until it is given back one way or the other. */
export interface Claim<Tx> {
  /** What the handler works with, such as a transaction. */
  readonly tx: Tx;
  /** The handler is through: from now on the key is done, for good. If this throws, it is not. */
  done(): Promise<void> | void;
  /** The handler failed: the key may be claimed again. */
  release(): Promise<void> | void;
}

/**
 * Remembers what has been handled. The best store is the table that the handler writes to: with the key inserted in the
 * same transaction, a process that dies in between leaves nothing behind, and nothing is handled twice.
 */
export interface OnceStore<Tx = undefined> {
  /** At most one claim of a key is out; others wait for its end, or are told `busy`. */
  claim(key: string): Promise<Claim<Tx> | 'done' | 'busy'>;
}

/** What became of a call of {@link once}. */
export type Once<Value> =
  | { readonly outcome: 'handled'; readonly value: Value }
  /** It was handled before. */
  | { readonly outcome: 'duplicate' }
  /** Somebody else is at it, and was still when waiting came to its end. */
  | { readonly outcome: 'busy' };

/**
 * Runs a handler unless its key is done. The key is done once the handler has returned; if it throws, the key is free
 * again and the error is thrown on.
 */
export async function once<Tx, Value>(
  store: OnceStore<Tx>,
  key: string,
  handler: (tx: Tx) => Promise<Value> | Value,
): Promise<Once<Value>> {
  const claim = await store.claim(key);
  if (typeof claim === 'string') return { outcome: claim === 'done' ? 'duplicate' : claim };
  let value: Value;
  try {
    value = await handler(claim.tx);
  } catch (error) {
    try {
      await claim.release();
    } catch {
      // The handler's error is the one that tells.
    }
    throw error;
  }
  await claim.done();
  return { outcome: 'handled', value };
}

export interface MemoryStoreOptions {
  /** How many keys are remembered; the oldest are forgotten first. 10,000 by default. */
  readonly size?: number;
  /** How long a call waits for another one with its key, milliseconds; 5,000 by default. */
  readonly waitMs?: number;
}

/** For development, and for handlers that may run twice: it knows only its own process, and forgets at a restart. */
export function memoryStore({ size = 10_000, waitMs = 5_000 }: MemoryStoreOptions = {}): OnceStore {
  const done = new Set<string>();
  const claimed = new Map<string, Promise<void>>();
  return {
    async claim(key) {
      const giveUpAt = Date.now() + waitMs;
      for (let other = claimed.get(key); other !== undefined; other = claimed.get(key)) {
        if (!(await endsWithin(other, giveUpAt - Date.now()))) return 'busy';
      }
      if (done.has(key)) return 'done';
      if (claimed.size >= size) return 'busy';
      let end: (() => void) | undefined;
      claimed.set(key, new Promise<void>((resolve) => (end = resolve)));
      const release = (): void => {
        claimed.delete(key);
        end?.();
      };
      return {
        tx: undefined,
        release,
        done() {
          done.add(key);
          const [oldest] = done;
          if (done.size > size && oldest !== undefined) done.delete(oldest);
          release();
        },
      };
    },
  };
}

async function endsWithin(other: Promise<void>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(resolve, Math.max(0, ms), false)));
  try {
    return await Promise.race([other.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
