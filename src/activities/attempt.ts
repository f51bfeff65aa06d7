import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { activityInfo, ApplicationFailure, log } from '@temporalio/activity';
import { signatureHeaders, type SigningSecrets } from '../http/signatures.ts';
import { OPERATOR_MERCHANT } from '../contract.ts';
import { openHeaders } from '../custom-headers.ts';
import type { Sender } from '../http/sender.ts';
import { askGate, shownUrl, type Endpoint, type GateAnswer } from '../policy/gate.ts';
import { hasFailed, verdictInWords, type Verdict } from '../policy/verdicts.ts';
import type { SecretBox } from '../secrets.ts';
import { VERSION } from '../version.ts';
import type { EgressWatch } from './egress.ts';
import type { GateReader } from './gate-reader.ts';
import { masked } from './masking.ts';
import { ownFault } from './own-fault.ts';
import type { Places } from './places.ts';
import type { Reporter, ReportParts } from './reporter.ts';
import type {
  AttemptRequest,
  AttemptResult,
  DeliveryActivities,
  GateRequest,
  Held,
  NoticeSettings,
} from './types.ts';

/** What the deliveries' activities work with. */
export interface DeliveryDependencies {
  readonly gate: Pick<GateReader, 'read' | 'readFresh' | 'expectChange'>;
  readonly reporter: Pick<Reporter, 'sample' | 'hold' | 'tell'>;
  readonly places: Pick<Places, 'take' | 'leave' | 'reserve'>;
  readonly secrets: Pick<SecretBox, 'open'>;
  readonly sender: Pick<Sender, 'post'>;
  readonly egress: Pick<EgressWatch, 'seen'>;
  readonly metrics: { deferred(): void; ownFault(): void };
  readonly notices: NoticeSettings | undefined;
}

/** After a POST a report is waited for this long, milliseconds; one that is not durable by then rides with a later batch. */
const REPORT_WITHIN_MS = 3_000;

/** What of an endpoint is sealed. */
interface OpenedSecrets extends SigningSecrets {
  /** R72: custom headers. */
  readonly headers: Readonly<Record<string, string>>;
}

type Passed = Extract<GateAnswer, { pass: true }>;

/**
 * The activities of a delivery. Errors are thrown only for our own faults before the POST (R6); whatever
 * the endpoint does is a verdict, which is returned. After the POST nothing throws and nothing is sent again.
 */
export function createDeliveryActivities(deps: DeliveryDependencies): DeliveryActivities {
  function fault(message: string, cause?: unknown): ApplicationFailure {
    deps.metrics.ownFault();
    return ownFault(message, cause);
  }

  /** Asks the gate; a refusal enters the merchant's waiting room before it is told. */
  async function passGate(request: GateRequest): Promise<Passed | Held> {
    const { merchantId, webhookId, call, fastFailures, heldSince, releasedAtVersion, permit, tryNow } =
      request;
    // R48: a permit is checked against the entity itself.
    const reading =
      permit === undefined ? deps.gate.read(merchantId, releasedAtVersion) : deps.gate.readFresh(merchantId);
    const view = await reading.catch((error: unknown) => {
      throw fault('the state of the merchant cannot be read', error);
    });
    const answer = askGate(view, {
      held: heldSince !== undefined,
      released: releasedAtVersion !== undefined,
      ...(permit === undefined ? {} : { permit }),
    });
    if (answer.pass) return answer;
    const since = heldSince ?? Date.now();
    if (!tryNow) {
      const place = { webhookId, call, fastFailures, heldSince: since };
      await deps.reporter.hold(merchantId, place).catch((error: unknown) => {
        throw fault('the hold cannot be registered', error);
      });
    }
    const { reason, until } = answer;
    log.debug('refused by the gate', { merchantId, webhookId, reason });
    return { type: 'held', reason, since, ...(until === undefined ? {} : { until }) };
  }

  /** Isolation of merchants: over the cap an attempt gives its slot back and comes again at a reserved time. */
  function takePlace(merchantId: string, force: boolean, leftMs: number): void {
    if (deps.places.take(merchantId, force)) return;
    deps.metrics.deferred();
    const waitMs = deps.places.reserve(merchantId, Date.now());
    throw ApplicationFailure.create({
      type: 'MerchantBusy',
      message: 'as many attempts of this merchant are under way as one worker makes at once',
      // One that would lie behind the bound is not waited for: R21 and R24 leave time for another try.
      nextRetryDelay: Math.max(1_000, Math.min(waitMs, leftMs / 2)),
      category: 'BENIGN',
    });
  }

  /** R40, R45, R46: tells the entity, and waits for it where others must not act before it knows. */
  async function report(
    { merchantId, webhookId }: GateRequest,
    passed: Passed,
    verdict: Verdict,
  ): Promise<void> {
    const at = Date.now();
    const failed = hasFailed(verdict);
    const told: Promise<void>[] = [];
    const parts = partsOf(verdict, at, passed.trial);
    if (parts !== undefined) told.push(deps.reporter.tell(merchantId, parts, 'now'));
    if (passed.trial === undefined && failed !== undefined) {
      const sampled = deps.reporter.sample(merchantId, at, failed, passed.epoch, passed.lastFailureAt);
      if (failed) told.push(sampled);
      else sampled.catch((error: unknown) => log.warn('a success is told later', { merchantId, error }));
    }
    if (failed) deps.gate.expectChange(merchantId);
    if (told.length === 0) return;
    const durable = Promise.all(told).then(() => true);
    const late = sleep(REPORT_WITHIN_MS, false, { ref: false });
    const isTold = await Promise.race([durable, late]).catch(() => false);
    if (!isTold) log.warn('the outcome is told later', { merchantId, webhookId });
  }

  async function giveBack(merchantId: string, permit: number): Promise<void> {
    await deps.reporter.tell(merchantId, { unusedPermits: [permit] }, 'now').catch((error: unknown) => {
      throw fault('the permit cannot be given back', error);
    });
  }

  async function openSecrets(merchantId: string, endpoint: Endpoint): Promise<OpenedSecrets> {
    const { secret, next } = endpoint;
    try {
      return {
        secret: await deps.secrets.open(merchantId, secret),
        ...(next === undefined ? {} : { nextSecret: await deps.secrets.open(merchantId, next.secret) }),
        headers: await openHeaders(deps.secrets, merchantId, endpoint),
      };
    } catch (error) {
      throw fault('the secrets of the endpoint cannot be opened', error);
    }
  }

  async function post(
    merchantId: string,
    endpoint: Endpoint,
    secrets: OpenedSecrets,
    webhookId: string,
    request: Pick<AttemptRequest, 'body' | 'createdAt' | 'attempt' | 'timeoutMs'>,
  ): Promise<Verdict> {
    const body = Buffer.from(request.body, 'utf8');
    const signable = { webhookId, timestamp: Math.floor(Date.now() / 1_000), body };
    const headers = {
      'Content-Type': 'application/json',
      'User-Agent': `hookladder/${VERSION}`,
      ...signatureHeaders(signable, secrets),
      'X-Webhook-Attempt': String(request.attempt),
      'X-Webhook-Created-At': request.createdAt,
      ...secrets.headers,
    };
    const confidential = [secrets.secret, secrets.nextSecret ?? '', ...Object.values(secrets.headers)];
    try {
      const verdict = await deps.sender.post({
        url: endpoint.url,
        headers,
        body,
        timeoutMs: request.timeoutMs,
      });
      deps.egress.seen(merchantId, verdict);
      return masked(verdict, confidential);
    } catch (error) {
      deps.egress.seen(merchantId, undefined);
      throw fault('the request cannot be made', error);
    }
  }

  /** A notice about a notice would never end. */
  function noticesFor(merchantId: string): Pick<AttemptResult, 'notices'> {
    const { notices } = deps;
    return notices === undefined || merchantId === OPERATOR_MERCHANT ? {} : { notices };
  }

  return {
    async attempt(request) {
      const beganAt = performance.now();
      const waitedMs = waitedBefore();
      const { merchantId, webhookId } = request.gate;
      const notices = noticesFor(merchantId);
      const answer = await passGate(request.gate);
      if ('type' in answer) return { ...answer, ...notices };
      takePlace(merchantId, answer.trial !== undefined, request.postWithinMs - waitedMs);
      try {
        const secrets = await openSecrets(merchantId, answer.endpoint);
        const beforePostMs = performance.now() - beganAt;
        if (waitedMs + beforePostMs >= request.postWithinMs) {
          if (answer.trial !== undefined) await giveBack(merchantId, answer.trial);
          return { type: 'bound-reached', ...notices };
        }
        // Later, the exchange might outlast the activity's own limit, and a known verdict would be lost.
        const spareMs = activityInfo().startToCloseTimeoutMs - request.timeoutMs;
        if (beforePostMs > spareMs / 2) throw fault(`preparing the POST took ${Math.round(beforePostMs)} ms`);
        const verdict = await post(merchantId, answer.endpoint, secrets, webhookId, request);
        log.info('attempt', {
          merchantId,
          webhookId,
          webhookAttempt: request.attempt,
          verdict: verdict.kind,
          answer: verdictInWords(verdict),
          ...('code' in verdict ? { code: verdict.code } : { status: verdict.status }),
          durationMs: verdict.durationMs,
          ...verdict.timings,
          address: verdict.address,
        });
        await report(request.gate, answer, verdict);
        return { type: 'verdict', verdict, url: shownUrl(answer.endpoint.url), ...notices };
      } finally {
        deps.places.leave(merchantId);
      }
    },

    async sendTest({ merchantId, webhookId, ...request }) {
      const view = await deps.gate.readFresh(merchantId).catch((error: unknown) => {
        throw fault('the state of the merchant cannot be read', error);
      });
      if (view?.endpoint === undefined) {
        throw ApplicationFailure.nonRetryable('the merchant has no endpoint', 'NoEndpoint');
      }
      const secrets = await openSecrets(merchantId, view.endpoint);
      const verdict = await post(merchantId, view.endpoint, secrets, webhookId, { ...request, attempt: 1 });
      log.info('test event', {
        merchantId,
        webhookId,
        verdict: verdict.kind,
        answer: verdictInWords(verdict),
      });
      return verdict;
    },

    async ask(request) {
      const answer = await passGate(request);
      const notices = noticesFor(request.merchantId);
      return 'type' in answer ? { ...answer, ...notices } : { type: 'pass', ...notices };
    },

    async leaveRoom({ merchantId, webhookId, permit }) {
      const unusedPermits = permit === undefined ? [] : [permit];
      await deps.reporter.tell(merchantId, { left: [webhookId], unusedPermits }, 'now');
    },
  };
}

/** R45, R46: what of a verdict is told at once; `undefined` if nothing is. */
export function partsOf(verdict: Verdict, at: number, permit?: number): ReportParts | undefined {
  const isSlowDown = verdict.kind === 'rate-limited';
  if (!isSlowDown && permit === undefined) return undefined;
  return {
    ...(isSlowDown ? { slowDowns: [{ at, retryAfterMs: verdict.retryAfterMs ?? 0 }] } : {}),
    ...(permit === undefined ? {} : { trials: [{ permit, failed: hasFailed(verdict) ?? true }] }),
  };
}

/**
 * Milliseconds from the scheduling of this activity to now. By the server's clock as far as it tells, since
 * a delivery under time skipping is ahead of ours; what waiting in the queue took only our clock knows.
 */
function waitedBefore(): number {
  const { scheduledTimestampMs, currentAttemptScheduledTimestampMs } = activityInfo();
  return Math.max(
    currentAttemptScheduledTimestampMs - scheduledTimestampMs,
    Date.now() - scheduledTimestampMs,
  );
}
