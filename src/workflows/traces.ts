import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import {
  isCancellation,
  proxySinks,
  workflowInfo,
  type Sinks,
  type WorkflowInterceptors,
} from '@temporalio/workflow';
import type { DeliveryActivities } from '../activities/types.ts';

/** What a workflow that has ended tells its worker, which makes a span of it. */
export interface TracedRun {
  /** The span that it was started in; absent if whoever started it does not trace. */
  readonly caller?: TraceCarrier;
  readonly traceId: string;
  readonly spanId: string;
  /** Unix milliseconds. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly outcome: 'completed' | 'failed' | 'cancelled';
}

/** The fields of W3C Trace Context, as the SDK's interceptors for OpenTelemetry put them in a header. */
export interface TraceCarrier {
  readonly traceparent: string;
  readonly tracestate?: string;
}

export interface TraceSinks extends Sinks {
  readonly traces: { ended(run: TracedRun): void };
}

const HEADER = '_tracer-data';
const SAMPLED = '01';
const traceparentIn = /"traceparent":"(00-([0-9a-f]{32})-[0-9a-f]{16}-([0-9a-f]{2}))"/;
const tracestateIn = /"tracestate":"([^"\\]{1,512})"/;
const tracedActivities: readonly string[] = ['attempt', 'sendTest'] satisfies (keyof DeliveryActivities)[];

/**
 * Passes the caller's trace to the attempts, with a span for the workflow between. Only in the bundle of workers that
 * trace. It adds no step to the workflow and takes none of its random numbers, so that histories replay with and without.
 */
export function interceptors(): WorkflowInterceptors {
  const { workflowType, runId, startTime } = workflowInfo();
  if (workflowType !== 'delivery' && workflowType !== 'endpointTest') return {};
  const digits = runId.replaceAll('-', '');
  const spanId = digits.slice(16);
  let carrier: TraceCarrier | undefined;
  return {
    inbound: [
      {
        execute(input, next) {
          const caller = callerOf(input.headers[HEADER]);
          const { traceId = digits, flags = SAMPLED, tracestate } = caller ?? {};
          const traceparent = `00-${traceId}-${spanId}-${flags}`;
          carrier = { traceparent, ...(tracestate === undefined ? {} : { tracestate }) };
          const ended = (outcome: TracedRun['outcome']): void => {
            proxySinks<TraceSinks>().traces.ended({
              ...(caller === undefined ? {} : { caller: caller.carrier }),
              traceId,
              spanId,
              startedAt: startTime.getTime(),
              endedAt: Date.now(),
              outcome,
            });
          };
          const result = next(input);
          result.then(
            () => ended('completed'),
            (error: unknown) => ended(isCancellation(error) ? 'cancelled' : 'failed'),
          );
          return result;
        },
      },
    ],
    outbound: [
      {
        scheduleActivity(input, next) {
          if (carrier === undefined || !tracedActivities.includes(input.activityType)) return next(input);
          return next({
            ...input,
            headers: { ...input.headers, [HEADER]: defaultPayloadConverter.toPayload(carrier) },
          });
        },
      },
    ],
  };
}

/** Anyone may have started the workflow, with any header: what cannot be read is left alone. */
function callerOf(header: Payload | undefined) {
  // Without data it may be an array of another kind.
  const text = new TextDecoder().decode(Uint8Array.from(header?.data ?? []));
  const [, traceparent, traceId, flags] = traceparentIn.exec(text) ?? [];
  if (traceparent === undefined || traceId === undefined || flags === undefined) return undefined;
  const tracestate = tracestateIn.exec(text)?.[1];
  const rest = tracestate === undefined ? {} : { tracestate };
  return { traceId, flags, ...rest, carrier: { traceparent, ...rest } };
}
