import { isIPv6 } from 'node:net';
import { DefaultLogger, Runtime, type LogEntry, type LogLevel as SdkLogLevel } from '@temporalio/worker';
import { pino, type DestinationStream } from 'pino';
import { LOG_LEVELS, type LogLevel, type ListenAddress } from './configuration.ts';
import { HISTOGRAM_BUCKETS } from './metrics.ts';

/** What a process tells of itself, and where. */
export interface TelemetryOptions {
  readonly logLevel: LogLevel;
  /** Standard output by default. */
  readonly logTo?: DestinationStream;
  /** Without it there are no metrics. */
  readonly metricsAddress?: ListenAddress;
}

/** What the SDK adds to a line and nobody reads. */
const noise = new Set(['taskToken', 'timestampNanos', 'isLocal', 'workflowRunId', 'activityId']);

/**
 * Sends all logs of this process, the SDK's included, to one stream of JSON lines, and serves the SDK's and the
 * product's metrics together. Must be called before the first connection is made, and once.
 * @throws if the address cannot be listened on.
 */
export function installTelemetry({ logLevel, logTo, metricsAddress }: TelemetryOptions): void {
  const log = pino(
    {
      level: logLevel,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { error: errorFields },
    },
    logTo,
  );
  const sdkLevel = logLevel.toUpperCase() as SdkLogLevel;
  const logger = new DefaultLogger(sdkLevel, (entry) => {
    if (isToldByUs(entry)) return;
    const { level, message, meta } = entry;
    const fields = Object.entries(meta ?? {}).filter(([name]) => !noise.has(name));
    log[level.toLowerCase() as LogLevel](
      { ...idsOf(meta?.['workflowId']), ...Object.fromEntries(fields) },
      message,
    );
  });
  Runtime.install({
    logger,
    telemetryOptions: {
      // What lies below INFO in the SDK's core may show payloads.
      logging: { filter: { core: quieter(logLevel, 'info'), other: quieter(logLevel, 'warn') }, forward: {} },
      ...(metricsAddress === undefined ? {} : { metrics: exporter(metricsAddress) }),
    },
  });
}

/** The less talkative of two levels. */
function quieter(one: LogLevel, other: LogLevel): SdkLogLevel {
  return (LOG_LEVELS.indexOf(one) > LOG_LEVELS.indexOf(other) ? one : other).toUpperCase() as SdkLogLevel;
}

/** By the conventions of Prometheus: seconds, and suffixes for units and counters. */
function exporter({ host, port }: ListenAddress) {
  return {
    attachServiceName: false,
    prometheus: {
      bindAddress: isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`,
      countersTotalSuffix: true,
      unitSuffix: true,
      useSecondsForDurations: true,
      histogramBucketOverrides: HISTOGRAM_BUCKETS,
    },
  };
}

/** The SDK's own lines name a workflow only. */
function idsOf(workflowId: unknown): { readonly merchantId?: string; readonly webhookId?: string } {
  const [kind = '', merchantId, webhookId] = typeof workflowId === 'string' ? workflowId.split(':') : [];
  if (!['delivery', 'breaker', 'test'].includes(kind) || merchantId === undefined) return {};
  return { merchantId, ...(webhookId === undefined ? {} : { webhookId }) };
}

/** A delivery that FAILED has a line of its own. Of its error only the words have come out of the workflow's thread. */
function isToldByUs({ message, meta }: LogEntry): boolean {
  const error = meta?.['error'] as { message?: unknown } | undefined;
  return message === 'Workflow failed' && /^[a-z-]+ after \d+ attempts?; /.test(String(error?.message));
}

/** Of an error what names it. Its details are left out: a status has what a receiver answered, who may echo a webhook. */
function errorFields(error: unknown): unknown {
  if (typeof error !== 'object' || error === null || !('message' in error)) return String(error);
  const { message } = error;
  const named = Object.fromEntries(
    ['name', 'type', 'code', 'stack'].flatMap((field) =>
      field in error ? [[field, error[field as keyof typeof error]]] : [],
    ),
  );
  return {
    ...named,
    message,
    ...('cause' in error && error.cause ? { cause: errorFields(error.cause) } : {}),
  };
}
