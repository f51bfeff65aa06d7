/** The worker process: reads its environment, starts the workers, ends with them. */
import { ConfigurationError, readConfiguration } from './configuration.ts';
import { installLogging } from './logging.ts';
import { startWorkers } from './workers.ts';

try {
  const configuration = await readConfiguration(process.env);
  installLogging(configuration.logLevel);
  // SIGTERM and SIGINT are taken by the SDK, which shuts the workers down; orchestrators must allow the grace time.
  const { done } = await startWorkers(configuration);
  await done;
} catch (error) {
  console.error(error instanceof ConfigurationError ? error.message : error);
  process.exitCode = 1;
}
