import { DefaultLogger, Runtime, type LogLevel as SdkLogLevel } from '@temporalio/worker';
import { pino, type DestinationStream } from 'pino';
import type { LogLevel } from './configuration.ts';

/** What the SDK adds to a line and nobody reads. */
const noise = new Set(['taskToken', 'timestampNanos', 'isLocal', 'workflowRunId', 'activityId']);

/**
 * Sends all logs of this process, the SDK's included, to one stream of JSON lines. Must be called before the
 * first connection is made, and once.
 * @param destination - standard output by default.
 */
export function installLogging(level: LogLevel, destination?: DestinationStream): void {
  const log = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { error: pino.stdSerializers.err },
    },
    destination,
  );
  const sdkLevel = level.toUpperCase() as SdkLogLevel;
  const logger = new DefaultLogger(sdkLevel, ({ level: entryLevel, message, meta }) => {
    const fields = Object.entries(meta ?? {}).filter(([name]) => !noise.has(name));
    log[entryLevel.toLowerCase() as LogLevel](Object.fromEntries(fields), message);
  });
  Runtime.install({ logger, telemetryOptions: { logging: { forward: { level: sdkLevel } } } });
}
