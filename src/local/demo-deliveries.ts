import type { Client } from '@temporalio/client';
import {
  HookladderError,
  InvalidWebhook,
  type DeliveryHandle,
  type DeliveryStatus,
  type Hookladder,
} from '../client.ts';
import { DELIVERY_WORKFLOW } from '../contract.ts';
import { fateOf, type Fate } from './demo-fates.ts';

/** A delivery that the demo shows. */
export interface Shown {
  /** Its place in the table, from 1. */
  readonly number: number;
  readonly delivery: DeliveryHandle;
  /** Undefined if it is none of the demo's own. */
  readonly fate: Fate | undefined;
  /** Undefined until it has been asked for the first time. */
  status?: DeliveryStatus;
  /** Why its status cannot be read. */
  trouble?: string;
}

/** More than these are left to the UI. */
const MOST_SHOWN = 20;

/** The deliveries that the demo shows, and where each of them is. */
export class ShownDeliveries {
  private readonly hooks: Hookladder;
  private readonly shown: Shown[] = [];

  constructor(hooks: Hookladder) {
    this.hooks = hooks;
  }

  get all(): readonly Shown[] {
    return this.shown;
  }

  /** Shows a delivery, unless it is shown already or there is no room for a stranger. */
  add(merchantId: string, webhookId: string): Shown | undefined {
    const known = this.shown.find(
      ({ delivery }) => delivery.merchantId === merchantId && delivery.webhookId === webhookId,
    );
    if (known !== undefined) return undefined;
    const fate = fateOf(merchantId);
    if (fate === undefined && this.shown.length >= MOST_SHOWN) return undefined;
    const delivery = this.hooks.delivery(merchantId, webhookId);
    const added: Shown = { number: this.shown.length + 1, delivery, fate };
    this.shown.push(added);
    return added;
  }

  /** Asks all that have not ended where they are. */
  async refresh(): Promise<void> {
    await Promise.all(this.shown.filter((each) => !hasEnded(each)).map(ask));
  }

  /** Those of the demo that have not come to the end that their fate foresees. */
  missing(): Shown[] {
    return this.shown.filter(({ fate, status }) => {
      if (fate === undefined) return false;
      return status?.state !== fate.end.state || status.reason !== fate.end.reason;
    });
  }
}

/** Whether nothing more will happen to it. */
export function hasEnded({ status, trouble }: Shown): boolean {
  if (trouble !== undefined && status === undefined) return true;
  return status?.state === 'delivered' || status?.state === 'failed' || status?.state === 'cancelled';
}

/** Merchant and webhook ids of deliveries, newest first: all that are open, or those started since a time. */
export async function* findDeliveries(
  temporal: Client,
  since?: Date,
): AsyncGenerator<readonly [merchantId: string, webhookId: string]> {
  const which = since === undefined ? "ExecutionStatus = 'Running'" : `StartTime >= '${since.toISOString()}'`;
  const query = `WorkflowType = '${DELIVERY_WORKFLOW}' AND ${which}`;
  for await (const { workflowId } of temporal.workflow.list({ query })) {
    // Whoever starts a delivery under another id is refused by the workflow itself.
    const [, merchantId, webhookId] = /^delivery:([^:]+):([^:]+)$/.exec(workflowId) ?? [];
    if (merchantId !== undefined && webhookId !== undefined) yield [merchantId, webhookId];
  }
}

async function ask(shown: Shown): Promise<void> {
  try {
    shown.status = await shown.delivery.status();
    delete shown.trouble;
  } catch (error) {
    if (!(error instanceof HookladderError)) throw error;
    // A worker that is busy for a moment leaves the last answer standing; a refused input never has one.
    if (error instanceof InvalidWebhook) shown.trouble = error.message;
  }
}
