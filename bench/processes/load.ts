/** Hands over webhooks, as a process of its own; its one argument is {@link LoadArguments} as JSON. */
import { Client } from '@temporalio/client';
import { Hookladder } from '../../src/client.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import {
  BARE_POST,
  BARE_POST_LOCALLY,
  BARE_SLEEPER,
  BARE_TASK_QUEUE,
  type BarePost,
} from '../bare/messages.ts';
import type { Reply } from '../child.ts';
import { manyAtATime, paced } from '../pace.ts';
import { connectTo, ENCRYPTION, temporalOf } from '../temporal.ts';

export interface LoadArguments {
  readonly keys: string;
  readonly policy?: PolicyOverrides;
}

/** Webhooks to hand over, to the product or to the bare engine. */
export interface Load {
  readonly side: 'product' | 'bare';
  /** Taken in turn; `null` leaves a turn out. */
  readonly merchants: readonly (string | null)[];
  /** Where the bare engine posts; the product's merchants have their endpoints. */
  readonly url: string;
  readonly prefix: string;
  readonly count: number;
  readonly pace: { readonly perSecond: number } | { readonly atATime: number };
  readonly type: string;
  readonly body: string;
  /** For the bare engine: sleeps so long after the POST, whatever the answer. */
  readonly sleepMs?: number;
  /** For the bare engine: makes the POST in a local activity. */
  readonly locally?: boolean;
}

/** A webhook that was handed over, and when, Unix milliseconds. */
export interface HandedOver {
  readonly merchantId: string;
  readonly webhookId: string;
  readonly at: number;
}
export type Submitted = readonly HandedOver[];

/** What the parent asks; each is answered with a {@link Reply} of the same number. */
export interface LoadCall {
  readonly number: number;
  readonly load: Load;
}

const { keys, policy } = JSON.parse(process.argv[2] ?? '') as LoadArguments;
const connection = await connectTo(process.env);
const client = new Client({ connection, namespace: temporalOf(process.env).namespace });
const hooks = new Hookladder({
  client,
  connectTimeoutMs: 30_000,
  secretKeys: { keys },
  encryption: ENCRYPTION,
  ...(policy === undefined ? {} : { policy }),
});

async function submit(load: Load): Promise<Submitted> {
  const { merchants, prefix, count, pace } = load;
  const submitted: HandedOver[] = [];
  const one = async (index: number): Promise<void> => {
    const merchantId = merchants[index % merchants.length];
    if (typeof merchantId !== 'string') return;
    const webhookId = `${prefix}${index}`;
    submitted.push({ merchantId, webhookId, at: Date.now() });
    await (load.side === 'product'
      ? deliver(load, merchantId, webhookId)
      : post(load, merchantId, webhookId));
  };
  if ('atATime' in pace) await manyAtATime(pace.atATime, count, one);
  else {
    const results = await paced(pace.perSecond, count, one);
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }
  return submitted;
}

async function deliver({ type, body }: Load, merchantId: string, webhookId: string): Promise<void> {
  await hooks.deliver({ merchantId, webhookId, type, body });
}

async function post(load: Load, merchantId: string, webhookId: string): Promise<void> {
  const { url, body, sleepMs, locally = false } = load;
  const request: BarePost = { url, webhookId, body };
  const options = { workflowId: `bare:${merchantId}:${webhookId}`, taskQueue: BARE_TASK_QUEUE };
  const type = locally ? BARE_POST_LOCALLY : BARE_POST;
  if (sleepMs === undefined) await client.workflow.start(type, { ...options, args: [request] });
  else await client.workflow.start(BARE_SLEEPER, { ...options, args: [request, sleepMs] });
}

process.on('message', ({ number, load }: LoadCall) => {
  submit(load).then(
    (result) => process.send?.({ number, result } satisfies Reply<Submitted>),
    (error: unknown) => process.send?.({ number, error: String(error) } satisfies Reply<Submitted>),
  );
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
