/** The workers as a process of their own; its one argument is {@link WorkerArguments} as JSON. */
import { destination } from 'pino';
import { installTelemetry } from '../../src/telemetry.ts';
import { startWorkers, type WorkersOptions } from '../../src/workers.ts';
import { ENCRYPTION, temporalOf } from '../temporal.ts';

/** What of the workers' options differs between scenarios. */
export interface WorkerArguments extends Pick<
  WorkersOptions,
  'policy' | 'maxConcurrentAttempts' | 'maxAttemptsPerMerchant'
> {
  readonly keys: string;
  readonly bundlePath: string;
  /** A file for the log at the level that workers have by default; without it only errors are told. */
  readonly logFile?: string;
}

const { keys, bundlePath, logFile, ...options } = JSON.parse(process.argv[2] ?? '') as WorkerArguments;
// The standard output belongs to the figures.
if (logFile === undefined) installTelemetry({ logLevel: 'error', logTo: destination(2) });
else installTelemetry({ logLevel: 'info', logTo: destination(logFile) });
const workers = await startWorkers({
  ...options,
  ...temporalOf(process.env),
  secretKeys: { keys },
  encryption: ENCRYPTION,
  allowedNetworks: ['127.0.0.0/8'],
  workflowBundle: { codePath: bundlePath },
  shutdownGraceMs: 1_000,
});
// As a deploy stops it.
process.on('disconnect', () => void workers.shutdown());
process.send?.('polling');
await workers.done;
process.exit();
