import type { Client } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import type { temporal } from '@temporalio/proto';
import type { AskResult, AttemptRequest, AttemptResult, GateRequest } from '../../src/activities/types.ts';
import { deliveryWorkflowId } from '../../src/contract.ts';
import { decodePayloads } from '../../src/payloads.ts';
import type { Release } from '../../src/policy/gate-calls.ts';
import { outcomeUnknown } from '../../src/policy/verdicts.ts';
import type { ToldAttempt, ToldDelivery, ToldHold, WebhookRef } from './record.ts';

const START_TO_CLOSE = 1;

type Event = temporal.api.history.v1.IHistoryEvent;

/** A gate call of an attempt or an ask, from its first event on. */
interface Call {
  readonly request: AttemptRequest | GateRequest;
  from: number;
}

interface Woken {
  readonly release: Release;
  readonly at: number;
}

/** What the history of a delivery says of its attempts and holds, read as it was stored: encrypted. */
export async function readHistory(
  client: Client,
  { merchantId, webhookId }: WebhookRef,
): Promise<Pick<ToldDelivery, 'attempts' | 'holds'>> {
  const { events } = await client.workflow
    .getHandle(deliveryWorkflowId(merchantId, webhookId))
    .fetchHistory();
  const reading = new Reading(client);
  for (const event of events ?? []) await reading.take(event);
  return { attempts: reading.attempts, holds: reading.holds() };
}

class Reading {
  readonly attempts: ToldAttempt[] = [];
  private readonly client: Client;
  private readonly calls = new Map<string, Call>();
  private readonly held: { readonly call: number; readonly hold: ToldHold }[] = [];
  private readonly releases: Woken[] = [];

  constructor(client: Client) {
    this.client = client;
  }

  async take(event: Event): Promise<void> {
    const at = tsToMs(event.eventTime);
    const {
      activityTaskScheduledEventAttributes: scheduled,
      activityTaskStartedEventAttributes: started,
      activityTaskCompletedEventAttributes: completed,
      activityTaskTimedOutEventAttributes: timedOut,
      workflowExecutionSignaledEventAttributes: signaled,
    } = event;
    if (scheduled && ['attempt', 'ask'].includes(scheduled.activityType?.name ?? '')) {
      const [request] = await decodePayloads(this.client, scheduled.input?.payloads);
      this.calls.set(String(event.eventId), { request: request as Call['request'], from: at });
    }
    if (started) this.callOf(started, (call) => (call.from = at));
    if (completed) {
      const [result] = await decodePayloads(this.client, completed.result?.payloads);
      this.callOf(completed, (call) => this.ended(call, result as AttemptResult | AskResult, at));
    }
    if (timedOut?.failure?.timeoutFailureInfo?.timeoutType === START_TO_CLOSE) {
      this.callOf(timedOut, (call) => this.lost(call, at));
    }
    if (signaled?.signalName === 'release') {
      const [release] = await decodePayloads(this.client, signaled.input?.payloads);
      this.releases.push({ release: release as Release, at });
    }
  }

  /** One for each stay in the room: who asks again keeps its place. */
  holds(): ToldHold[] {
    const stays = this.held.filter(
      ({ hold }, nth) => nth === 0 || this.held[nth - 1]?.hold.since !== hold.since,
    );
    return stays.map(({ call, hold }, nth) => {
      const next = stays[nth + 1]?.call ?? Number.POSITIVE_INFINITY;
      const first = this.releases.find(({ release }) => release.call >= call && release.call < next);
      return first === undefined ? hold : woken(hold, first);
    });
  }

  private callOf(
    { scheduledEventId }: { readonly scheduledEventId?: unknown },
    then: (call: Call) => void,
  ): void {
    const call = this.calls.get(String(scheduledEventId));
    if (call !== undefined) then(call);
  }

  private ended({ request, from }: Call, result: AttemptResult | AskResult, at: number): void {
    if (result.type === 'held') {
      const { since, reason } = result;
      const { call } = 'gate' in request ? request.gate : request;
      this.held.push({ call, hold: { since, reason, registeredAt: at } });
    }
    if (result.type === 'verdict' && 'gate' in request) {
      this.attempts.push({ ...attemptOf(request), from, to: at, verdict: result.verdict });
    }
  }

  private lost({ request, from }: Call, at: number): void {
    if (!('gate' in request)) return;
    this.attempts.push({ ...attemptOf(request), from, to: at, verdict: outcomeUnknown(at - from) });
  }
}

function woken(hold: ToldHold, { release, at }: Woken): ToldHold {
  return { ...hold, releasedAt: at, ...(release.permit === undefined ? {} : { forTrial: true }) };
}

function attemptOf({ attempt, gate }: AttemptRequest): Pick<ToldAttempt, 'number' | 'permit'> {
  return { number: attempt, ...(gate.permit === undefined ? {} : { permit: gate.permit }) };
}
