import { performance } from 'node:perf_hooks';
import { activityInfo, log } from '@temporalio/activity';
import { signatureHeaders, type SigningSecrets } from '../http/signatures.ts';
import type { Sender } from '../http/sender.ts';
import { askGate, type Endpoint, type GateAnswer } from '../policy/gate.ts';
import { verdictInWords, type Verdict } from '../policy/verdicts.ts';
import type { SecretBox } from '../secrets.ts';
import { VERSION } from '../version.ts';
import type { GateReader } from './gate-reader.ts';
import { ownFault } from './own-fault.ts';
import type { Reporter } from './reporter.ts';
import type { AttemptRequest, DeliveryActivities, GateRequest, Held } from './types.ts';

/** What the deliveries' activities work with. */
export interface DeliveryDependencies {
  readonly gate: Pick<GateReader, 'read'>;
  readonly reporter: Pick<Reporter, 'hold' | 'leave'>;
  readonly secrets: Pick<SecretBox, 'open'>;
  readonly sender: Pick<Sender, 'post'>;
}

/**
 * The activities of a delivery. Errors are thrown only for our own faults before the POST (R6); whatever
 * the endpoint does is a verdict, which is returned. After the POST nothing throws and nothing is sent again.
 */
export function createDeliveryActivities(deps: DeliveryDependencies): DeliveryActivities {
  /** Asks the gate; a refusal enters the merchant's waiting room before it is told. */
  async function passGate(request: GateRequest): Promise<Extract<GateAnswer, { pass: true }> | Held> {
    const { merchantId, webhookId, call, fastFailures, heldSince, releasedAtVersion, tryNow } = request;
    const view = await deps.gate.read(merchantId, releasedAtVersion).catch((error: unknown) => {
      throw ownFault('the state of the merchant cannot be read', error);
    });
    const answer = askGate(view, {
      held: heldSince !== undefined,
      released: releasedAtVersion !== undefined,
    });
    if (answer.pass) return answer;
    const since = heldSince ?? Date.now();
    if (!tryNow) {
      const place = { webhookId, call, fastFailures, heldSince: since };
      await deps.reporter.hold(merchantId, place).catch((error: unknown) => {
        throw ownFault('the hold cannot be registered', error);
      });
    }
    log.info('held', { merchantId, webhookId, reason: answer.reason });
    return { type: 'held', reason: answer.reason, since };
  }

  async function openSecrets(merchantId: string, { secret, nextSecret }: Endpoint): Promise<SigningSecrets> {
    try {
      return {
        secret: await deps.secrets.open(merchantId, secret),
        ...(nextSecret === undefined ? {} : { nextSecret: await deps.secrets.open(merchantId, nextSecret) }),
      };
    } catch (error) {
      throw ownFault('the signing secret cannot be opened', error);
    }
  }

  async function post(
    endpoint: Endpoint,
    secrets: SigningSecrets,
    request: AttemptRequest,
  ): Promise<Verdict> {
    const body = Buffer.from(request.body, 'utf8');
    const signable = { webhookId: request.gate.webhookId, timestamp: Math.floor(Date.now() / 1_000), body };
    const headers = {
      'Content-Type': 'application/json',
      'User-Agent': `hookladder/${VERSION}`,
      ...signatureHeaders(signable, secrets),
      'X-Webhook-Attempt': String(request.attempt),
      'X-Webhook-Created-At': request.createdAt,
    };
    try {
      return await deps.sender.post({ url: endpoint.url, headers, body, timeoutMs: request.timeoutMs });
    } catch (error) {
      throw ownFault('the request cannot be made', error);
    }
  }

  return {
    async attempt(request) {
      const beganAt = performance.now();
      const waitedMs = waitedBefore();
      const { merchantId, webhookId } = request.gate;
      const answer = await passGate(request.gate);
      if ('type' in answer) return answer;
      const secrets = await openSecrets(merchantId, answer.endpoint);
      const beforePostMs = performance.now() - beganAt;
      if (waitedMs + beforePostMs >= request.postWithinMs) return { type: 'bound-reached' };
      // Later, the exchange might outlast the activity's own limit, and a known verdict would be lost.
      const spareMs = activityInfo().startToCloseTimeoutMs - request.timeoutMs;
      if (beforePostMs > spareMs / 2)
        throw ownFault(`preparing the POST took ${Math.round(beforePostMs)} ms`);
      const verdict = await post(answer.endpoint, secrets, request);
      log.info('attempt', {
        merchantId,
        webhookId,
        webhookAttempt: request.attempt,
        verdict: verdict.kind,
        answer: verdictInWords(verdict),
        durationMs: verdict.durationMs,
      });
      return { type: 'verdict', verdict };
    },

    async ask(request) {
      const answer = await passGate(request);
      return 'type' in answer ? answer : { type: 'pass' };
    },

    async leaveRoom({ merchantId, webhookId }) {
      await deps.reporter.leave(merchantId, webhookId);
    },
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
