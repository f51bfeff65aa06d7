import {
  diag,
  DiagLogLevel,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type DiagLogger,
  type Span,
} from '@opentelemetry/api';
import { defaultResource, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { NodeSDK } from '@opentelemetry/sdk-node';
import { RandomIdGenerator, type IdGenerator, type SpanProcessor } from '@opentelemetry/sdk-trace';
import { Context } from '@temporalio/activity';
import {
  OpenTelemetryActivityInboundInterceptor,
  OpenTelemetryActivityOutboundInterceptor,
} from '@temporalio/interceptors-opentelemetry/lib/worker/index.js';
import { Runtime, type InjectedSinks, type WorkerOptions } from '@temporalio/worker';
import type { AttemptResult, DeliveryActivities } from './activities/types.ts';
import { deliveryIds } from './contract.ts';
import type { Post, Sender } from './http/sender.ts';
import type { Verdict } from './policy/verdicts.ts';
import { VERSION } from './version.ts';
import type { TracedRun, TraceSinks } from './workflows/traces.ts';

/** What is traced, beside where the traces go, which the `OTEL_…` environment says. */
export interface TraceOptions {
  /** Whether merchants get a `traceparent` header; false by default. */
  readonly sendTraceparent?: boolean;
  /** In place of the exporter that the environment names. */
  readonly spanProcessors?: SpanProcessor[];
}

/** The traces of this process. */
export interface Traces {
  /** For the worker that makes the attempts. */
  readonly workerOptions: Pick<WorkerOptions, 'interceptors' | 'sinks'>;
  /** A sender whose POSTs are spans. */
  sender(sender: Pick<Sender, 'post'>): Pick<Sender, 'post'>;
  /** Sends what is left, and resolves also if that fails. */
  shutdown(): Promise<void>;
}

const tracedActivities: readonly string[] = ['attempt', 'sendTest'] satisfies (keyof DeliveryActivities)[];

/** Begins to trace in this process, once; the SDK is configured by the environment. */
export function startTraces({ sendTraceparent = false, spanProcessors }: TraceOptions = {}): Traces {
  const ids = new GivenIds();
  const sdk = new NodeSDK({
    resource: defaultResource().merge(
      resourceFromAttributes({ 'service.name': 'hookladder', 'service.version': VERSION }),
    ),
    // Those of the host and the process say too much: a command line, for one.
    ...(process.env['OTEL_NODE_RESOURCE_DETECTORS'] ? {} : { resourceDetectors: [envDetector] }),
    metricReaders: [],
    logRecordProcessors: [],
    idGenerator: ids,
    ...(spanProcessors === undefined ? {} : { spanProcessors }),
  });
  sdk.start();
  diag.setLogger(sdkLogger(), { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
  const sinks: InjectedSinks<TraceSinks> = {
    traces: {
      ended: { fn: ({ workflowId, workflowType }, run) => endedSpan(ids, workflowId, workflowType, run) },
    },
  };
  return {
    workerOptions: {
      sinks,
      interceptors: {
        activity: [
          (context) => {
            if (!tracedActivities.includes(context.info.activityType)) return {};
            return {
              inbound: new OpenTelemetryActivityInboundInterceptor(context, { tracer: tracer() }),
              outbound: new OpenTelemetryActivityOutboundInterceptor(context),
            };
          },
          (context) => (tracedActivities.includes(context.info.activityType) ? { inbound: attributed } : {}),
        ],
      },
    },
    sender: (sender) => ({ post: (post) => tracedPost(sender, post, sendTraceparent) }),
    async shutdown() {
      // What went wrong has been logged.
      await sdk.shutdown().catch(() => undefined);
    },
  };
}

function tracer() {
  return trace.getTracer('hookladder', VERSION);
}

/** The span of a workflow. Its id was known to the attempts before it ended. */
function endedSpan(ids: GivenIds, workflowId: string, workflowType: string, run: TracedRun): void {
  const caller = run.caller === undefined ? ROOT_CONTEXT : propagation.extract(ROOT_CONTEXT, run.caller);
  const attributes = { ...webhookOf(workflowId), 'hookladder.outcome': run.outcome };
  const span = ids.using(run, () =>
    tracer().startSpan(`RunWorkflow:${workflowType}`, { startTime: run.startedAt, attributes }, caller),
  );
  span.setStatus({ code: run.outcome === 'failed' ? SpanStatusCode.ERROR : SpanStatusCode.OK });
  span.end(run.endedAt);
}

/** Tells the span of an activity what it was about and what came of it. */
const attributed: NonNullable<ReturnType<ActivityInterceptorsFactory>['inbound']> = {
  async execute(input, next) {
    const span = trace.getActiveSpan();
    const { workflowExecution, attempt } = Context.current().info;
    span?.setAttributes({ ...webhookOf(workflowExecution?.workflowId ?? ''), 'temporal.attempt': attempt });
    const result = await next(input);
    span?.setAttributes(whatCame(result as AttemptResult | Verdict));
    return result;
  },
};

type ActivityInterceptorsFactory = NonNullable<
  NonNullable<WorkerOptions['interceptors']>['activity']
>[number];

function whatCame(result: AttemptResult | Verdict): Attributes {
  if ('kind' in result) return { 'hookladder.verdict': result.kind };
  switch (result.type) {
    case 'verdict':
      return { 'hookladder.result': result.type, 'hookladder.verdict': result.verdict.kind };
    case 'held':
      return { 'hookladder.result': result.type, 'hookladder.reason': result.reason };
    case 'bound-reached':
      return { 'hookladder.result': result.type };
  }
}

/**
 * A POST as a span, by the semantic conventions of an HTTP client. Neither path nor query: merchants keep tokens in
 * them; nothing of what was sent or answered but the status.
 */
async function tracedPost(
  sender: Pick<Sender, 'post'>,
  post: Post,
  sendTraceparent: boolean,
): Promise<Verdict> {
  const url = new URL(post.url);
  const attributes: Attributes = {
    'http.request.method': 'POST',
    'url.scheme': url.protocol.slice(0, -1),
    'server.address': url.hostname,
    'server.port': Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
    ...webhookOf(Context.current().info.workflowExecution?.workflowId ?? ''),
    'hookladder.attempt': Number(post.headers['X-Webhook-Attempt']),
  };
  return await tracer().startActiveSpan('POST', { kind: SpanKind.CLIENT, attributes }, async (span) => {
    const headers = sendTraceparent ? { ...post.headers, traceparent: traceparentOf(span) } : post.headers;
    try {
      const verdict = await sender.post({ ...post, headers });
      describe(span, verdict);
      return verdict;
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: 'nothing was sent: a fault of our own' });
      throw error;
    } finally {
      span.end();
    }
  });
}

function describe(span: Span, verdict: Verdict): void {
  const { kind, address } = verdict;
  span.setAttributes({
    'hookladder.verdict': kind,
    ...(address === undefined ? {} : { 'network.peer.address': address }),
    ...('status' in verdict ? { 'http.response.status_code': verdict.status } : {}),
  });
  if (kind === 'delivered') return;
  span.setAttribute('error.type', 'status' in verdict ? String(verdict.status) : verdict.code);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

function traceparentOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}

function webhookOf(workflowId: string): Attributes {
  const { merchantId, webhookId } = deliveryIds(workflowId);
  return { 'hookladder.merchant.id': merchantId, 'hookladder.webhook.id': webhookId };
}

/** Random ids, but for a span whose id was given away before it is made. */
class GivenIds implements IdGenerator {
  private readonly random = new RandomIdGenerator();
  private given: { readonly traceId: string; readonly spanId: string } | undefined;

  using<T>(ids: { readonly traceId: string; readonly spanId: string }, make: () => T): T {
    this.given = ids;
    try {
      return make();
    } finally {
      this.given = undefined;
    }
  }

  generateTraceId = (): string => this.given?.traceId ?? this.random.generateTraceId();
  generateSpanId = (): string => this.given?.spanId ?? this.random.generateSpanId();
}

/** What the SDK has to say, such as that the collector cannot be reached, among our own logs. */
function sdkLogger(): DiagLogger {
  const { logger: log } = Runtime.instance();
  return {
    error: (message: string) => log.error(`traces: ${message}`),
    warn: (message: string) => log.warn(`traces: ${message}`),
    info: silent,
    debug: silent,
    verbose: silent,
  };
}

function silent(): void {}
