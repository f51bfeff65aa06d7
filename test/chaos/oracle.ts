import { meaningOf, hasFailed, type Verdict } from '../../src/policy/verdicts.ts';
import type {
  Accepted,
  ChaosRecord,
  Disturbance,
  Sighting,
  ToldAttempt,
  ToldDelivery,
  ToldHold,
  ToldMerchant,
  WebhookRef,
} from './record.ts';
import { isAtRest } from './rest.ts';
import { NUMBERS } from './settings.ts';

/** Something that the rules do not explain. */
export interface Finding {
  readonly what:
    | 'not-accepted'
    | 'lost'
    | 'not-answering'
    | 'stuck'
    | 'wrong-end'
    | 'stray-post'
    | 'wrong-signature'
    | 'attempts-differ'
    | 'posted-twice'
    | 'outcome-lost'
    | 'duplicate'
    | 'permit-used-twice'
    | 'posted-while-open'
    | 'trial-too-early'
    | 'out-of-order'
    | 'room-differs'
    | 'worker-crashed';
  readonly merchantId?: string;
  readonly webhookId?: string;
  readonly detail: string;
}

/** What a run came to. */
export interface Judgement {
  readonly findings: readonly Finding[];
  /** Counts, in the order of telling. */
  readonly figures: Readonly<Record<string, number>>;
}

/** Judges a run: whatever is lost or not explained is a finding. Knows nothing but the record. */
export function judge(record: ChaosRecord): Judgement {
  return new Oracle(record).judge();
}

/** Told also where there is none, in this order; others follow. */
const FIGURES: readonly string[] = [
  'accepted',
  'calls of deliver made again',
  'delivered',
  'FAILED: rejected',
  'FAILED: fast-ladder-exhausted',
  'held: no-endpoint',
  'held: paused',
  'asleep on the slow ladder',
  'attempts told',
  'POSTs seen',
  'outcome lost (R7), POST seen',
  'outcome lost (R7), POST not seen',
  'duplicates',
];

const REASONS = new Set(['rejected', 'fast-ladder-exhausted', 'slow-ladder-exhausted']);

class Oracle {
  private readonly record: ChaosRecord;
  private readonly findings: Finding[] = [];
  private readonly counts = new Map(FIGURES.map((each) => [each, 0]));
  private readonly seen: ReadonlyMap<string, readonly Sighting[]>;
  private readonly told: ReadonlyMap<string, ToldDelivery>;
  private readonly merchants: ReadonlyMap<string, ToldMerchant>;

  constructor(record: ChaosRecord) {
    this.record = record;
    this.seen = Map.groupBy(record.sightings, keyOf);
    this.told = new Map(record.deliveries.map((each) => [keyOf(each), each]));
    this.merchants = new Map(record.merchants.map((each) => [each.merchantId, each]));
  }

  judge(): Judgement {
    const { accepted, notAccepted, callsRepeated, sightings, deliveries, disturbances, crashes } =
      this.record;
    this.count('accepted', accepted.length);
    this.count('calls of deliver made again', callsRepeated);
    if (notAccepted > 0)
      this.find('not-accepted', {}, `${notAccepted} were not taken before the time was up`);
    for (const { kind } of disturbances) this.count(`disturbance: ${kind}`);
    this.count('POSTs seen', sightings.length);
    for (const each of accepted) this.judgeDelivery(each);
    this.judgeStrays();
    for (const merchant of this.merchants.values()) {
      const own = deliveries.filter(({ merchantId }) => merchantId === merchant.merchantId);
      this.judgeTrials(merchant, own);
      this.judgeOrder(merchant, own);
      this.judgeRoom(merchant, own);
    }
    for (const lines of crashes) this.find('worker-crashed', {}, lines);
    return { findings: this.findings, figures: Object.fromEntries(this.counts) };
  }

  private judgeDelivery(ref: Accepted): void {
    const told = this.told.get(keyOf(ref));
    if (told?.status === undefined) {
      this.find('not-answering', ref, 'it could not be asked');
      return;
    }
    const seen = this.seen.get(keyOf(ref)) ?? [];
    this.count('attempts told', told.attempts.length);
    this.judgeEnd(told, seen);
    this.judgeAttempts(told, seen);
    this.judgeDuplicates(told, seen);
  }

  /** R64, R3, R10, R20, R43, R50: delivered and seen, FAILED by a budget that is spent, held, or asleep. */
  private judgeEnd(told: ToldDelivery, seen: readonly Sighting[]): void {
    const { status, attempts } = told;
    if (status === undefined) return;
    const { state, reason = '', money } = status;
    const last = attempts.at(-1);
    switch (state) {
      case 'delivered': {
        this.count('delivered');
        const taken = seen.some(
          (each) => each.isGenuine && statusOf(each) === 200 && each.attempt === last?.number,
        );
        if (last?.verdict.kind !== 'delivered')
          this.find('wrong-end', told, 'delivered, but not by its last attempt');
        if (!taken) this.find('lost', told, 'delivered, but its receiver never took it');
        break;
      }
      case 'failed':
        this.count(`FAILED: ${reason}`);
        if (!REASONS.has(reason) || reason !== endOf(attempts, money)) {
          this.find('wrong-end', told, `FAILED as ${reason}, but its attempts say ${endOf(attempts, money)}`);
        }
        break;
      case 'held-paused':
      case 'held-no-endpoint':
        this.count(`held: ${state.slice('held-'.length)}`);
        this.judgeHeld(told);
        break;
      default:
        if (isAtRest(status, this.record.endedAt)) this.count('asleep on the slow ladder');
        else this.find('stuck', told, `${state}: ${reason}`);
    }
  }

  /** R50, R53: at the end only merchants without an endpoint, or paused so as to be counted, hold anything. */
  private judgeHeld(told: ToldDelivery): void {
    const stands = this.merchants.get(told.merchantId)?.stands;
    const explained = told.status?.state === 'held-paused' ? stands?.isPaused : stands?.hasEndpoint === false;
    if (explained !== true)
      this.find('stuck', told, `${told.status?.state}, but its merchant says otherwise`);
  }

  /** R90: the attempts it tells are those that were seen; of a lost outcome or an exchange that broke, one may be missing. */
  private judgeAttempts(told: ToldDelivery, seen: readonly Sighting[]): void {
    const { attempts, status } = told;
    const numbers = attempts.map(({ number }) => number);
    if (status?.attempts !== attempts.length || numbers.some((number, nth) => number !== nth + 1)) {
      this.find('attempts-differ', told, `tells ${status?.attempts}, its history has ${numbers.join(', ')}`);
    }
    for (const each of seen) {
      if (!each.isGenuine) this.find('wrong-signature', told, `attempt ${each.attempt}`);
      if (!numbers.includes(each.attempt))
        this.find('attempts-differ', told, `attempt ${each.attempt} was seen, not told`);
    }
    for (const attempt of attempts) this.judgeAttempt(told, attempt, seen);
  }

  private judgeAttempt(told: ToldDelivery, attempt: ToldAttempt, seen: readonly Sighting[]): void {
    const { number, verdict } = attempt;
    const [post, ...more] = seen.filter((each) => each.attempt === number);
    if (more.length > 0) this.find('posted-twice', told, `attempt ${number} came ${more.length + 1} times`);
    switch (verdict.kind) {
      case 'outcome-unknown': {
        const causes = this.overlapping(attempt.from, attempt.to);
        this.count(`outcome lost (R7), POST ${post === undefined ? 'not ' : ''}seen`);
        if (causes.length === 0)
          this.find('outcome-lost', told, `attempt ${number}, and nothing was killed or cut`);
        break;
      }
      case 'timeout':
      case 'network':
        if (post === undefined) this.count(`${verdict.kind}, POST not seen`);
        else if (isPrompt(post)) this.count(`${verdict.kind}, though answered at once`);
        break;
      default:
        if (post === undefined || statusOf(post) !== verdict.status) {
          const answered = post === undefined ? 'not seen' : `answered ${JSON.stringify(post.answer)}`;
          this.find(
            'attempts-differ',
            told,
            `attempt ${number}: told ${verdict.kind} ${verdict.status}, ${answered}`,
          );
        }
    }
  }

  /** R64: a receiver that had answered 200 gets it again only if that answer did not reach the workflow. */
  private judgeDuplicates(told: ToldDelivery, seen: readonly Sighting[]): void {
    const inOrder = seen.toSorted((a, b) => a.at - b.at);
    const first = inOrder.findIndex((each) => statusOf(each) === 200);
    for (const [nth, again] of inOrder.entries()) {
      if (first === -1 || nth <= first) continue;
      const before = inOrder.slice(0, nth).findLast((each) => statusOf(each) === 200);
      const attempt = told.attempts.find(({ number }) => number === before?.attempt);
      this.count('duplicates');
      const cause = attempt === undefined ? undefined : this.whyAgain(attempt);
      if (cause === undefined)
        this.find('duplicate', told, `attempt ${again.attempt}, after attempt ${before?.attempt} was taken`);
      else this.count(`duplicate after ${cause}`);
    }
  }

  private whyAgain({ verdict, from, to }: ToldAttempt): string | undefined {
    switch (verdict.kind) {
      case 'outcome-unknown':
        return this.overlapping(from, to)[0]?.kind;
      case 'timeout':
        return 'an answer later than the timeout';
      case 'network':
        return 'an exchange that broke';
      default:
        return undefined;
    }
  }

  private judgeStrays(): void {
    const known = new Set(this.record.accepted.map(keyOf));
    for (const each of this.record.sightings) {
      if (!known.has(keyOf(each))) this.find('stray-post', each, 'was never accepted');
    }
  }

  /** R44, R48: one POST for a permit; after a trial that failed none before the next trial, a pause later. */
  private judgeTrials({ changedAt }: ToldMerchant, own: readonly ToldDelivery[]): void {
    const posts = own.flatMap((delivery) =>
      (this.seen.get(keyOf(delivery)) ?? []).map((post) => ({
        post,
        attempt: delivery.attempts.find(({ number }) => number === post.attempt),
      })),
    );
    const inOrder = posts.toSorted((a, b) => a.post.at - b.post.at);
    const used = new Set<number>();
    const { firstPauseMs, permitMs } = NUMBERS.breaker;
    let failedAt: number | undefined;
    for (const { post, attempt } of inOrder) {
      if (attempt === undefined) continue;
      const { permit, verdict } = attempt;
      const pauseRuns =
        failedAt !== undefined && !changedAt.some((at) => at >= (failedAt ?? 0) - 1_000 && at <= post.at);
      if (permit === undefined) {
        if (pauseRuns)
          this.find(
            'posted-while-open',
            post,
            `attempt ${post.attempt}, ${post.at - (failedAt ?? 0)} ms after a failed trial`,
          );
        continue;
      }
      this.count('trials');
      if (used.has(permit)) this.find('permit-used-twice', post, `permit ${permit}`);
      used.add(permit);
      const waitedMs = post.at - (failedAt ?? Number.NEGATIVE_INFINITY);
      if (pauseRuns && waitedMs < firstPauseMs) {
        // R48: a permit that a kill has kept from being used, or heard of, in time is lost, and the next is given at once.
        const causes = this.overlapping((failedAt ?? 0) - permitMs, post.at);
        if (causes.length > 0) this.count('trials after a lost permit');
        else this.find('trial-too-early', post, `${waitedMs} ms after a failed trial`);
      }
      failedAt = hasFailed(verdict as Verdict) === true ? post.at : undefined;
    }
  }

  /** R46: who was in the room before another was even refused is woken before that one. */
  private judgeOrder({ merchantId }: ToldMerchant, own: readonly ToldDelivery[]): void {
    const stays = own.flatMap(({ webhookId, holds, attempts, status }) =>
      holds.map((hold, nth) => ({
        ...hold,
        webhookId,
        inRoomFrom: inRoomFrom(hold, attempts),
        // Still there at the end, or gone by itself (R47).
        wokenAt:
          hold.releasedAt ??
          (nth === holds.length - 1 && isHeld(status?.state) ? Number.POSITIVE_INFINITY : undefined),
      })),
    );
    const inTurn = stays.filter(({ forTrial, wokenAt }) => forTrial !== true && wokenAt !== undefined);
    const byRefusal = inTurn.toSorted((a, b) => a.since - b.since);
    for (const [nth, later] of byRefusal.entries()) {
      const overtaken = byRefusal
        .slice(0, nth)
        .find((each) => each.registeredAt < later.inRoomFrom && (each.wokenAt ?? 0) > (later.wokenAt ?? 0));
      if (overtaken === undefined) continue;
      this.find(
        'out-of-order',
        { merchantId, webhookId: later.webhookId },
        `was woken before ${overtaken.webhookId}, held ${later.since - overtaken.since} ms longer`,
      );
    }
    this.count('woken in their turn', inTurn.filter(({ releasedAt }) => releasedAt !== undefined).length);
  }

  /** R51: the room has exactly those that say they are held. */
  private judgeRoom({ merchantId, stands }: ToldMerchant, own: readonly ToldDelivery[]): void {
    const held = own.filter(({ status }) => isHeld(status?.state)).length;
    if (stands === undefined) {
      if (own.length > 0)
        this.find('not-answering', { merchantId }, 'the entity of the merchant could not be asked');
    } else if (stands.held !== held) {
      this.find('room-differs', { merchantId }, `${stands.held} in the room, ${held} say they are held`);
    }
  }

  private overlapping(from: number, to: number): readonly Disturbance[] {
    return this.record.disturbances.filter((each) => each.from <= to && each.to >= from);
  }

  private find(what: Finding['what'], { merchantId, webhookId }: Partial<WebhookRef>, detail: string): void {
    this.findings.push({
      what,
      ...(merchantId === undefined ? {} : { merchantId }),
      ...(webhookId === undefined ? {} : { webhookId }),
      detail,
    });
  }

  private count(what: string, by = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + by);
  }
}

/** An attempt whose outcome was lost may have been refused too: then the place of that refusal was kept. */
function inRoomFrom({ since }: ToldHold, attempts: readonly ToldAttempt[]): number {
  const before = attempts.filter(({ to }) => to <= since);
  const known = before.findLastIndex(({ verdict }) => verdict.kind !== 'outcome-unknown');
  return before[known + 1]?.from ?? since;
}

/** What the rules make of these attempts: by their own arithmetic, not by the product's ladders. */
function endOf(attempts: readonly ToldAttempt[], money: boolean): string {
  const meanings = attempts.map(({ verdict }) => meaningOf(verdict as Verdict, money));
  const count = (meaning: string) => meanings.filter((each) => each === meaning).length;
  if (count('delivered') > 0) return 'delivered';
  if (count('rejection') > (money ? NUMBERS.slow.stepsMs.length : 0))
    return money ? 'slow-ladder-exhausted' : 'rejected';
  return count('fast-failure') >= NUMBERS.fast.budget ? 'fast-ladder-exhausted' : 'not ended';
}

function keyOf({ merchantId, webhookId }: WebhookRef): string {
  return `${merchantId}:${webhookId}`;
}

function isHeld(state: string | undefined): boolean {
  return state?.startsWith('held-') === true;
}

function statusOf({ answer }: Sighting): number | undefined {
  if (typeof answer === 'object') return answer.status;
  return typeof answer === 'number' ? answer : undefined;
}

/** Answered at once, so that it should have been heard. */
function isPrompt({ answer }: Sighting): boolean {
  return typeof answer === 'number' || (typeof answer === 'object' && answer.afterMs === undefined);
}
