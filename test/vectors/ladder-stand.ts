import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';
import type { DeliveryHandle, DeliveryStatus, Hookladder } from '../../src/client.ts';
import { startReceiver, type Answer, type Receiver } from '../support/receiver.ts';
import {
  readHistory,
  startSkipping,
  type AskedPause,
  type DeliveryHistory,
} from '../support/time-skipping.ts';
import { verdictOf, type LadderCase, type ScriptedVerdict } from './cases.ts';
import { differences, type Outcome } from './outcome.ts';

/** A timeout takes real time. Long enough that an answer is not taken for one on a busy machine. */
const SCRIPTED_TIMEOUT_MS = 1_000;
/** A whole ladder takes a second or two; one that was broken would wait in real time. */
const CASE_WITHIN_MS = 90_000;

interface Script {
  readonly vector: LadderCase;
  /** Attempts that have arrived. */
  posts: number;
}

/**
 * Where ladder cases run as real deliveries: a merchant whose endpoint answers each delivery by the script
 * of its case. Needs workers, and a server with time skipping.
 */
export class LadderStand {
  private readonly client: Client;
  private readonly receiver: Receiver;
  private readonly merchantId: string;
  private readonly scripts: Map<string, Script>;

  private constructor(client: Client, receiver: Receiver, merchantId: string, scripts: Map<string, Script>) {
    this.client = client;
    this.receiver = receiver;
    this.merchantId = merchantId;
    this.scripts = scripts;
  }

  /** @param hooks - a client whose merchants have a breaker that cannot open. */
  static async open(client: Client, hooks: Hookladder): Promise<LadderStand> {
    const scripts = new Map<string, Script>();
    const receiver = await startReceiver((_nth, { headers }) => {
      const script = scripts.get(String(headers['x-webhook-id']));
      if (script === undefined) return 500;
      const verdict = verdictOf(script.vector, script.posts);
      script.posts += 1;
      return asAnswer(verdict);
    });
    const merchantId = `vectors-${randomUUID()}`;
    await hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret: randomUUID() });
    return new LadderStand(client, receiver, merchantId, scripts);
  }

  /** Runs one case as a delivery of its own. */
  async run(vector: LadderCase): Promise<Pick<Outcome, 'ranAs' | 'problems'>> {
    const webhookId = randomUUID();
    const script = { vector, posts: 0 };
    this.scripts.set(webhookId, script);
    const delivery = await startSkipping(this.client, {
      merchantId: this.merchantId,
      webhookId,
      type: 'payment.status_changed',
      body: JSON.stringify({ status: vector.money ? 'paid' : 'expired' }),
      ...(vector.verdicts.includes('timeout') ? { policy: { attemptTimeoutMs: SCRIPTED_TIMEOUT_MS } } : {}),
    });
    const ranAs = delivery.workflowId;
    try {
      return { ranAs, problems: await this.problemsOf(delivery, script) };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return { ranAs, problems: [`could not be followed to its end: ${why}`] };
    }
  }

  async close(): Promise<void> {
    await this.receiver.close();
  }

  private async problemsOf(delivery: DeliveryHandle, script: Script): Promise<string[]> {
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      const handle = this.client.workflow.getHandle(delivery.workflowId);
      // It may have ended by itself just now.
      handle.terminate('the case took too long').catch(() => undefined);
    }, CASE_WITHIN_MS);
    const status = await delivery.result().finally(() => clearTimeout(timer));
    const history = await readHistory(this.client, delivery);
    const arrived = 'attempts that arrived';
    return [
      ...(timedOut ? [`was stopped after ${CASE_WITHIN_MS / 1_000} s`] : []),
      ...differences(script.vector.expect, asExpectation(status, history, script)),
      ...differences({ [arrived]: status.attempts }, { [arrived]: script.posts }),
    ];
  }
}

/** What a delivery did, in the words of a case. */
function asExpectation(
  { state, reason, fastFailures, slowSteps }: DeliveryStatus,
  { acceptedAt, ladderPauses }: DeliveryHistory,
  { vector, posts }: Script,
): LadderCase['expect'] {
  const { attemptOffsets, endOffset } = offsets(ladderPauses, posts);
  const isCut = reason === 'slow-ladder-ceiling' || reason === 'expired';
  const missing = vector.expect.endOffset - endOffset;
  const isDrift = isCut && missing > 0 && missing <= realTimeSpent(acceptedAt, ladderPauses);
  return {
    attemptOffsets,
    state,
    endOffset: isDrift ? vector.expect.endOffset : endOffset,
    fastFailures,
    slowSteps,
    ...(reason === undefined ? {} : { reason }),
  };
}

/** When attempts would be made and the delivery would end if attempts took no time: by the pauses that it asked for. */
function offsets(pauses: readonly AskedPause[], attempts: number) {
  const sums = [0];
  for (const { seconds } of pauses) sums.push((sums.at(-1) ?? 0) + seconds);
  return { attemptOffsets: sums.slice(0, attempts), endOffset: sums.at(-1) ?? 0 };
}

/**
 * A bound is a moment on the delivery's clock, which also moves while attempts are made. So the pause that a
 * bound cuts is shorter by that time: by no more than the age at its start that is not accounted for by pauses.
 */
function realTimeSpent(acceptedAt: number, pauses: readonly AskedPause[]): number {
  const last = pauses.at(-1);
  if (last === undefined) return 0;
  const waited = pauses.slice(0, -1).reduce((sum, { seconds }) => sum + seconds, 0);
  return (last.at - acceptedAt) / 1_000 - waited;
}

function asAnswer(scripted: ScriptedVerdict | undefined): Answer {
  // Past the end of a script that does not repeat: the case fails by the number of its attempts.
  if (scripted === undefined) return 200;
  if (typeof scripted !== 'object') return scripted;
  return { status: scripted.status, headers: { 'Retry-After': String(scripted.retryAfter) } };
}
