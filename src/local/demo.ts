import { relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findDeliveries, hasEnded, ShownDeliveries, type Shown } from './demo-deliveries.ts';
import { fates, NEWCOMER } from './demo-fates.ts';
import { startDemoReceiver, type DemoReceiver } from './demo-receiver.ts';
import type { Screen } from './demo-screen.ts';
import { policyInWords, policyOf, waitInWords } from './demo-words.ts';
import { LOCAL_NETWORKS, type LocalStack } from './stack.ts';

/** Any secret will do: the demo's receiver believes everybody. */
const SECRET = 'whsec_ZGVtbyBzZWNyZXQsIG5vdCBmb3IgcmVhbA==';
const REFRESH_MS = 250;
/** Visibility lags and is rate-limited: strangers may come into the table a little late. */
const LOOK_FOR_NEW_MS = 2_000;
/** Long enough that the hold can be seen. */
const NEWCOMER_WAITS_MS = 4_000;
/** Warm it takes about ten seconds. */
const ONCE_LIMIT_MS = 120_000;

export interface DemoOptions {
  /** Ends when all fates are reached, instead of staying up. */
  readonly once: boolean;
  readonly screen: Screen;
  /** Ends the demo. */
  readonly signal: AbortSignal;
}

/** What is missing at the end, in words; empty if every delivery of the demo has met its fate. */
export type Missing = readonly string[];

/** Delivers webhooks of every fate and shows what becomes of them, until the signal says so. */
export async function runDemo(stack: LocalStack, options: DemoOptions): Promise<Missing> {
  const { signal } = options;
  const receiver = await startDemoReceiver();
  try {
    const demo = new Demo(stack, receiver, options);
    // The SDK ends the workers at the same signal, so a question may find nobody to answer it.
    return await stack.temporal.connection.withAbortSignal(signal, () => demo.run());
  } catch (error) {
    if (signal.aborted) return [];
    throw error;
  } finally {
    // Attempts under way still get their answers.
    await stack.stop();
    await receiver.close();
  }
}

class Demo {
  private readonly stack: LocalStack;
  private readonly receiver: DemoReceiver;
  private readonly options: DemoOptions;
  private readonly deliveries: ShownDeliveries;
  private readonly startedAt = new Date();

  constructor(stack: LocalStack, receiver: DemoReceiver, options: DemoOptions) {
    this.stack = stack;
    this.receiver = receiver;
    this.options = options;
    this.deliveries = new ShownDeliveries(stack.hooks);
  }

  async run(): Promise<Missing> {
    const { screen } = this.options;
    screen.say(`\nThis demo shortens the delivery rules so that one can watch:\n${policyInWords()}\n`);
    await this.resumeEarlier();
    await this.setEndpoints();
    await this.deliverAll();
    await this.watch();
    screen.end();
    return this.deliveries.missing().map(missingInWords);
  }

  private async resumeEarlier(): Promise<void> {
    const { screen } = this.options;
    let open = 0;
    const shown: Shown[] = [];
    for await (const [merchantId, webhookId] of findDeliveries(this.stack.temporal)) {
      open += 1;
      const added = this.deliveries.add(merchantId, webhookId);
      if (added !== undefined) shown.push(added);
    }
    if (open === 0) return;
    screen.say(
      `Found ${open} open ${open === 1 ? 'delivery' : 'deliveries'} of earlier starts, which now go on:`,
    );
    for (const each of shown) screen.say(this.introduce(each));
    if (open > shown.length) screen.say(` (${open - shown.length} more are only in the UI)`);
    screen.say('');
  }

  /** Anew at each start, since the receiver has a new port. */
  private async setEndpoints(): Promise<void> {
    const { hooks } = this.stack;
    await hooks.merchant(NEWCOMER).removeEndpoint();
    const others = fates.filter(({ merchantId }) => merchantId !== NEWCOMER);
    await Promise.all(others.map(({ merchantId }) => this.setEndpoint(merchantId)));
  }

  private async setEndpoint(merchantId: string): Promise<void> {
    const url = this.receiver.urlOf(merchantId);
    await this.stack.hooks.merchant(merchantId).setEndpoint({ url, secret: SECRET });
  }

  private async deliverAll(): Promise<void> {
    const { screen } = this.options;
    screen.say('Delivering; each webhook with its page in the Temporal UI:');
    const run = this.startedAt.getTime().toString(36);
    for (const { merchantId, webhook, webhooks = 1 } of fates) {
      for (let index = 1; index <= webhooks; index++) {
        const webhookId = webhooks === 1 ? run : `${run}-${index}`;
        await this.stack.hooks.deliver({ ...webhook, merchantId, webhookId, paymentId: `pay-${run}` });
        const added = this.deliveries.add(merchantId, webhookId);
        if (added !== undefined) screen.say(this.introduce(added));
      }
    }
    screen.say('');
  }

  private async watch(): Promise<void> {
    const { once, screen, signal } = this.options;
    let newcomerHasAddress = false;
    let nextLookAt = 0;
    let allTold = false;
    while (!signal.aborted) {
      await this.deliveries.refresh();
      screen.show(this.deliveries.all);
      if (!newcomerHasAddress && this.newcomerWaited()) {
        newcomerHasAddress = true;
        screen.say(`The merchant ${NEWCOMER} now gives its address.`);
        await this.setEndpoint(NEWCOMER);
      }
      if (!allTold && this.allOfDemoEnded()) {
        allTold = true;
        this.tellTheEnd();
      }
      if (once && (allTold || Date.now() - this.startedAt.getTime() > ONCE_LIMIT_MS)) return;
      if (allTold && Date.now() >= nextLookAt) {
        await this.lookForNew();
        nextLookAt = Date.now() + LOOK_FOR_NEW_MS;
      }
      await sleep(REFRESH_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  private newcomerWaited(): boolean {
    const newest = this.deliveries.all.findLast(({ delivery }) => delivery.merchantId === NEWCOMER);
    const { state, heldSince } = newest?.status ?? {};
    if (state !== 'held-no-endpoint' || heldSince === undefined) return false;
    return Date.now() - Date.parse(heldSince) >= NEWCOMER_WAITS_MS;
  }

  private allOfDemoEnded(): boolean {
    return this.deliveries.all.every((each) => each.fate === undefined || hasEnded(each));
  }

  /** Webhooks that somebody delivers while the demo stays up. */
  private async lookForNew(): Promise<void> {
    for await (const [merchantId, webhookId] of findDeliveries(this.stack.temporal, this.startedAt)) {
      const added = this.deliveries.add(merchantId, webhookId);
      if (added !== undefined) this.options.screen.say(this.introduce(added));
    }
  }

  private introduce({ number, delivery, fate }: Shown): string {
    const story = fate?.story ?? `webhook ${delivery.webhookId}`;
    return ` ${number} ${delivery.merchantId}: ${story}\n   ${this.linkTo(delivery.workflowId)}`;
  }

  private linkTo(workflowId: string): string {
    const { uiUrl, namespace } = this.stack;
    return `${uiUrl}/namespaces/${encodeURIComponent(namespace)}/workflows/${encodeURIComponent(workflowId)}`;
  }

  private tellTheEnd(): void {
    const { once, screen } = this.options;
    const { uiUrl, codecUrl, address, keysFile, encryptionKeysFile, workerLogFile } = this.stack;
    const missing = this.deliveries.missing();
    if (missing.length === 0) screen.say('Every delivery of the demo has met its fate.');
    if (once) return;
    for (const each of missing) screen.say(`Not as the demo foresees: ${missingInWords(each)}`);
    screen.say(
      [
        'All stays up until Ctrl-C:',
        `  Temporal UI   ${uiUrl}`,
        `  codec server  ${codecUrl} (temporal … --codec-endpoint)`,
        `  worker log    ${fromHere(workerLogFile)}`,
        'To deliver a webhook of your own (it will appear below), in another terminal:',
        `  export TEMPORAL_ADDRESS=${address}`,
        `  export HOOKLADDER_SECRET_KEYS_FILE=${keysFile}`,
        `  export HOOKLADDER_ENCRYPTION_KEYS_FILE=${encryptionKeysFile}`,
        `  export HOOKLADDER_ALLOWED_NETWORKS=${LOCAL_NETWORKS.join(',')}`,
        '  ALLOW_HTTP=1 npx node examples/service.ts',
        'and call it as README.md shows.',
        '',
      ].join('\n'),
    );
  }
}

function missingInWords(shown: Shown): string {
  const { number, delivery, fate, status } = shown;
  const is = status === undefined ? 'never answered' : waitInWords(status, policyOf(shown), Date.now());
  return `${number} ${delivery.merchantId} (${fate?.story ?? delivery.webhookId}): ${is}`;
}

function fromHere(path: string): string {
  const fromCwd = relative(process.cwd(), path);
  return fromCwd.startsWith('..') ? path : fromCwd;
}
