import { createHmac } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pMap from 'p-map';
import type { Webhook } from '../../src/client.ts';
import { startReceiver, type Answer, type Received, type Receiver } from '../support/receiver.ts';
import { disturb, planDisturbances } from './disturbances.ts';
import { readHistory } from './evidence.ts';
import { DEAD, HOMELESS, MOVING, SCRIPTS } from './merchants.ts';
import { Random } from './random.ts';
import type { ChaosRecord, Disturbance, Sighting, ToldDelivery, ToldMerchant, WebhookRef } from './record.ts';
import { isAtRest } from './rest.ts';
import { ChaosStand } from './stand.ts';

export interface ChaosOptions {
  /** Path of the Temporal CLI. */
  readonly binary: string;
  readonly seed: number;
  readonly deliveries: number;
  /** Kills of workers, of the server, or of all; connections are broken beside them. */
  readonly kills: number;
  /** The run ends by then at the latest, Unix milliseconds; what is not at rest by then is a finding. */
  readonly deadline: number;
  /** Webhooks handed over per second. */
  readonly perSecond: number;
  /** Progress for people. */
  readonly log: (line: string) => void;
}

/** After this long between two disturbances the workers have what is in flight in their hands again. */
const LEAST_GAP_MS = 4_000;
const AT_ONCE = 16;
/** A machine that takes them slower than they come is waited for. */
const PENDING_AT_MOST = 50;
const LOOK_EVERY_MS = 100;

/** Hands over webhooks while all around them fails, and waits until each has ended or rests by the rules. */
export async function runChaos(options: ChaosOptions): Promise<ChaosRecord> {
  const receiver = await startReceiver();
  const stand = await ChaosStand.start(options.binary);
  try {
    return await new ChaosRun(options, stand, receiver).run();
  } finally {
    await stand.stop();
    await receiver.close();
  }
}

/** Where a merchant receives, and by which secret. */
interface Place {
  readonly merchantId: string;
  readonly path: string;
  readonly secret: string;
}

class ChaosRun {
  private readonly options: ChaosOptions;
  private readonly stand: ChaosStand;
  private readonly receiver: Receiver;
  private readonly random: Random;
  private readonly places = new Map<string, Place>();
  private readonly bodies = new Map<string, string>();
  private readonly sent = new Map<string, number>();
  private readonly sightings: Sighting[] = [];
  private readonly accepted: WebhookRef[] = [];
  private readonly disturbances: Disturbance[] = [];
  private readonly changes = new Map<string, number[]>();
  private readonly loadMs: number;
  private callsRepeated = 0;
  private notAccepted = 0;
  private beganAt = 0;

  constructor(options: ChaosOptions, stand: ChaosStand, receiver: Receiver) {
    this.options = options;
    this.stand = stand;
    this.receiver = receiver;
    this.random = new Random(options.seed);
    const disturbances = options.kills + Math.floor(options.kills / 2);
    this.loadMs = Math.max((options.deliveries / options.perSecond) * 1_000, disturbances * LEAST_GAP_MS);
  }

  async run(): Promise<ChaosRecord> {
    const { log, deadline } = this.options;
    this.receiver.answer((_, request) => this.answer(request));
    for (const merchantId of Object.keys(SCRIPTS)) await this.setEndpoint(merchantId, 1);
    this.beganAt = Date.now();
    await Promise.all([this.handOver(), this.disturb(), this.move()]);
    log(
      `${this.accepted.length} accepted, ${this.sightings.length} POSTs seen; waiting for the rest to settle`,
    );
    await this.settle(this.accepted.filter(({ merchantId }) => merchantId !== DEAD));
    // It would go on with its trials: at rest it can be counted.
    await this.until(
      async () => await this.stand.hooks.merchant(DEAD).pause({ by: 'chaos', why: 'the end' }),
    );
    await this.settle(this.accepted.filter(({ merchantId }) => merchantId === DEAD));
    const merchants = await pMap([...Object.keys(SCRIPTS), HOMELESS], (id) => this.merchant(id), {
      concurrency: AT_ONCE,
    });
    const deliveries = await pMap(this.accepted, (each) => this.evidence(each), { concurrency: AT_ONCE });
    if (Date.now() > deadline) log('the time was up before all was at rest');
    return {
      accepted: this.accepted,
      notAccepted: this.notAccepted,
      callsRepeated: this.callsRepeated,
      sightings: this.sightings,
      deliveries,
      merchants,
      disturbances: this.disturbances,
      crashes: this.stand.crashes,
      endedAt: Date.now(),
    };
  }

  /** What of the webhooks is handed over: so all else keeps step with a machine that is slow. */
  private get progress(): number {
    return this.accepted.length / this.options.deliveries;
  }

  private async untilProgress(progress: number): Promise<void> {
    while (this.progress < progress && Date.now() < this.options.deadline) await sleep(LOOK_EVERY_MS);
  }

  private answer(request: Received): Answer {
    const { path, headers, body, at } = request;
    const place = this.places.get(path);
    const webhookId = String(headers['x-webhook-id']);
    const { merchantId } = place ?? { merchantId: path };
    const key = `${merchantId}:${webhookId}`;
    const before = this.sent.get(key) ?? 0;
    this.sent.set(key, before + 1);
    const answer = SCRIPTS[merchantId]?.({ before, webhookId, progress: this.progress, random: this.random });
    const signed = `${String(headers['x-webhook-timestamp'])}.${body.toString('utf8')}`;
    const signature = createHmac('sha256', place?.secret ?? '')
      .update(signed)
      .digest('hex');
    const isGenuine =
      place !== undefined &&
      headers['x-webhook-signature'] === signature &&
      this.bodies.get(key) === body.toString('utf8');
    const attempt = Number(headers['x-webhook-attempt']);
    this.sightings.push({ merchantId, webhookId, at, attempt, answer: answer ?? 404, isGenuine });
    return answer ?? 404;
  }

  private async setEndpoint(merchantId: string, nth: number): Promise<void> {
    const path = `/${merchantId}/${nth}`;
    const secret = `secret ${nth} of the merchant ${merchantId}`;
    this.places.set(path, { merchantId, path, secret });
    const url = new URL(path, this.receiver.url).href;
    await this.until(async () => await this.stand.hooks.merchant(merchantId).setEndpoint({ url, secret }));
    this.changed(merchantId);
  }

  private changed(merchantId: string): void {
    this.changes.set(merchantId, [...(this.changes.get(merchantId) ?? []), Date.now()]);
  }

  /** One by one and many at a time, in the same pace; what is refused is handed over again with the same id. */
  private async handOver(): Promise<void> {
    const { deliveries, seed, deadline } = this.options;
    const random = new Random(seed + 1);
    const merchants = [...Object.keys(SCRIPTS), HOMELESS];
    const pending: Promise<void>[] = [];
    for (let nth = 0; nth < deliveries;) {
      if (Date.now() > deadline) {
        this.notAccepted += deliveries - nth;
        break;
      }
      const size = Math.min(random.chance(0.5) ? 1 : Math.ceil(random.between(2, 20)), deliveries - nth);
      const webhooks = Array.from({ length: size }, (_, each) =>
        this.webhook(merchants[Math.floor(random.next() * merchants.length)] ?? HOMELESS, nth + each, random),
      );
      nth += size;
      pending.push(this.untilAccepted(webhooks));
      await sleep(Math.max(0, this.beganAt + (nth / deliveries) * this.loadMs - Date.now()));
      await this.untilProgress((nth - PENDING_AT_MOST) / deliveries);
    }
    await Promise.all(pending);
  }

  private webhook(merchantId: string, nth: number, random: Random): Webhook & WebhookRef {
    const webhookId = `w${nth}`;
    const status = random.chance(0.5) ? 'paid' : 'pending';
    const body = JSON.stringify({ id: webhookId, status, note: 'ж'.repeat(random.between(1, 400)) });
    this.bodies.set(`${merchantId}:${webhookId}`, body);
    return { merchantId, webhookId, type: 'payment.status_changed', body };
  }

  private async untilAccepted(webhooks: readonly (Webhook & WebhookRef)[]): Promise<void> {
    let left = webhooks;
    for (;;) {
      const outcomes = await this.deliver(left);
      const refused = left.filter((_, nth) => outcomes[nth]?.status !== 'fulfilled');
      for (const each of left) if (!refused.includes(each)) this.accepted.push(each);
      if (refused.length === 0) return;
      left = refused;
      this.callsRepeated += left.length;
      if (Date.now() > this.options.deadline) break;
      await sleep(200);
    }
    this.notAccepted += left.length;
  }

  private async deliver(webhooks: readonly Webhook[]): Promise<PromiseSettledResult<unknown>[]> {
    const { hooks } = this.stand;
    const [only, ...others] = webhooks;
    if (only === undefined || others.length > 0) return await hooks.deliverMany(webhooks);
    return await Promise.allSettled([hooks.deliver(only)]);
  }

  private async disturb(): Promise<void> {
    const { seed, kills, deadline, log } = this.options;
    const random = new Random(seed + 2);
    for (const { kind, progress } of planDisturbances(random, kills)) {
      await this.untilProgress(progress);
      if (Date.now() > deadline) return;
      const done = await disturb(this.stand, kind, random);
      this.disturbances.push(done);
      const awaySeconds = ((done.to - done.from) / 1_000).toFixed(1);
      log(`${this.accepted.length} accepted; ${kind}: back after ${awaySeconds} s`);
      await sleep(LEAST_GAP_MS / 4);
    }
  }

  /** The endpoint of one merchant goes away for a while and comes back elsewhere. */
  private async move(): Promise<void> {
    await this.untilProgress(0.3);
    await this.until(async () => await this.stand.hooks.merchant(MOVING).removeEndpoint({ by: 'chaos' }));
    this.changed(MOVING);
    await this.untilProgress(0.6);
    await this.setEndpoint(MOVING, 2);
  }

  private async settle(refs: readonly WebhookRef[]): Promise<void> {
    const { deadline, log } = this.options;
    let open = refs;
    let toldAt = Date.now();
    while (open.length > 0 && Date.now() < deadline) {
      // One that crashed is a finding; what it had in its hands must go on all the same.
      await this.stand.startWorkers();
      // Not all at once: to be asked is work for the workers too.
      const [next, later] = [open.slice(0, AT_ONCE), open.slice(AT_ONCE)];
      const rests = await pMap(next, (each) => this.rests(each), { concurrency: AT_ONCE });
      const restless = next.filter((_, nth) => rests[nth] !== true);
      open = [...later, ...restless];
      if (Date.now() - toldAt > 10_000) {
        log(`${open.length} are not known to be at rest yet`);
        toldAt = Date.now();
      }
      if (restless.length > 0) await sleep(500);
    }
  }

  private async rests({ merchantId, webhookId }: WebhookRef): Promise<boolean> {
    const status = await this.stand.hooks
      .delivery(merchantId, webhookId)
      .status()
      .catch(() => undefined);
    return status !== undefined && isAtRest(status, Date.now());
  }

  private async evidence(ref: WebhookRef): Promise<ToldDelivery> {
    const { merchantId, webhookId } = ref;
    const { hooks, temporal } = this.stand;
    const status = await this.asked(async () => await hooks.delivery(merchantId, webhookId).status());
    const history = await this.asked(async () => await readHistory(temporal, ref));
    return {
      merchantId,
      webhookId,
      ...(status === undefined ? {} : { status }),
      ...(history ?? { attempts: [], holds: [] }),
    };
  }

  private async merchant(merchantId: string): Promise<ToldMerchant> {
    const changedAt = this.changes.get(merchantId) ?? [];
    const entity = this.stand.hooks.merchant(merchantId);
    const stands = await this.asked(async () => await entity.breaker());
    if (stands === undefined) return { merchantId, changedAt };
    const { gate, held } = stands;
    const hasEndpoint = gate.endpoint !== undefined;
    const isPaused = gate.paused !== undefined;
    return { merchantId, changedAt, stands: { circuit: gate.circuit.state, hasEndpoint, isPaused, held } };
  }

  private async asked<T>(ask: () => Promise<T>): Promise<T | undefined> {
    for (let tries = 1; ; tries++) {
      try {
        return await ask();
      } catch (error) {
        if (tries < 5) continue;
        this.options.log(`no answer: ${String(error)}`);
        return undefined;
      }
    }
  }

  /** Again and again, as whoever is told that Temporal is away would. */
  private async until(act: () => Promise<unknown>): Promise<void> {
    for (;;) {
      try {
        await act();
        return;
      } catch (error) {
        if (Date.now() > this.options.deadline) throw error;
        await sleep(200);
      }
    }
  }
}
