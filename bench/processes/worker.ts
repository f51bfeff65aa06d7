/** The workers as a process of their own; its one argument is {@link WorkerArguments} as JSON. */
import { destination } from 'pino';
import { installLogging } from '../../src/logging.ts';
import { startWorkers, type WorkersOptions } from '../../src/workers.ts';

/** What of the workers' options differs between scenarios. */
export interface WorkerArguments extends Pick<
  WorkersOptions,
  'policy' | 'maxConcurrentAttempts' | 'maxAttemptsPerMerchant'
> {
  readonly address: string;
  readonly namespace: string;
  readonly keys: string;
  readonly bundlePath: string;
}

const { address, namespace, keys, bundlePath, ...options } = JSON.parse(
  process.argv[2] ?? '',
) as WorkerArguments;
// The standard output belongs to the figures.
installLogging('error', destination(2));
const { done } = await startWorkers({
  ...options,
  connection: { address },
  namespace,
  secretKeys: { keys },
  allowedNetworks: ['127.0.0.0/8'],
  workflowBundle: { codePath: bundlePath },
  shutdownGraceMs: 1_000,
});
process.on('disconnect', () => process.exit());
process.send?.('polling');
await done;
