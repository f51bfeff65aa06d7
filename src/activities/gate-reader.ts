import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { GATE_MEMO, merchantWorkflowId } from '../contract.ts';
import type { GateView } from '../policy/gate.ts';

const CACHE_MS = 1_000;
/** After an own failure the entity is about to change: for a while its view is read more often. */
const ALERT_CACHE_MS = 100;
const ALERT_MS = 2_000;
const READ_WITHIN_MS = 5_000;
/** Merchants whose view is remembered; the oldest are forgotten first. */
const CACHED_MERCHANTS = 10_000;

interface Cached {
  readonly view: Promise<GateView | undefined>;
  readonly readAt: number;
}

/**
 * Reads what a merchant's entity publishes in its memo, by `describe`: unlike a query it needs no worker
 * and never waits behind the entity's workflow task. One read at a time for each merchant, kept for a second.
 */
export class GateReader {
  private readonly client: Client;
  private readonly cache = new Map<string, Cached>();
  private readonly alertUntil = new Map<string, number>();

  constructor(client: Client) {
    this.client = client;
  }

  /**
   * @param version - a view older than this is read again: a release names the version that let it go.
   * @returns `undefined` while the merchant has no entity.
   * @throws if Temporal cannot be asked: our own fault (R6).
   */
  async read(merchantId: string, version = 0): Promise<GateView | undefined> {
    const cached = this.cache.get(merchantId);
    if (cached !== undefined && Date.now() - cached.readAt < this.cacheMs(merchantId)) {
      const view = await cached.view;
      if ((view?.version ?? 0) >= version) return view;
      // Another caller may have read again meanwhile.
      if (this.cache.get(merchantId) !== cached) return await this.read(merchantId, version);
    }
    return await this.readAgain(merchantId);
  }

  /** Reads past the cache: for what must be true right before a POST (R48). */
  async readFresh(merchantId: string): Promise<GateView | undefined> {
    return await this.readAgain(merchantId);
  }

  /** Says that the merchant's view is about to change. */
  expectChange(merchantId: string): void {
    this.alertUntil.set(merchantId, Date.now() + ALERT_MS);
    setTimeout(() => this.alertUntil.delete(merchantId), 2 * ALERT_MS).unref();
  }

  private cacheMs(merchantId: string): number {
    return Date.now() < (this.alertUntil.get(merchantId) ?? 0) ? ALERT_CACHE_MS : CACHE_MS;
  }

  private readAgain(merchantId: string): Promise<GateView | undefined> {
    const view = this.describe(merchantId);
    this.cache.delete(merchantId);
    this.cache.set(merchantId, { view, readAt: Date.now() });
    const [oldest] = this.cache.keys();
    if (this.cache.size > CACHED_MERCHANTS && oldest !== undefined) this.cache.delete(oldest);
    view.catch(() => this.cache.delete(merchantId));
    return view;
  }

  private async describe(merchantId: string): Promise<GateView | undefined> {
    const handle = this.client.workflow.getHandle(merchantWorkflowId(merchantId));
    try {
      const { memo } = await this.client.connection.withDeadline(Date.now() + READ_WITHIN_MS, () =>
        handle.describe(),
      );
      return memo?.[GATE_MEMO] as GateView | undefined;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return undefined;
      throw error;
    }
  }
}
