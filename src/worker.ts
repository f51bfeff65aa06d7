/** The worker process: reads its environment, starts the workers, ends with them. */
import { ConfigurationError, readConfiguration } from './configuration.ts';
import { installLogging } from './logging.ts';
import { SearchAttributesMissing } from './search-attributes.ts';
import { startWorkers, type RunningWorkers } from './workers.ts';

async function start(): Promise<RunningWorkers> {
  const configuration = await readConfiguration(process.env);
  installLogging(configuration.logLevel);
  try {
    return await startWorkers(configuration);
  } catch (error) {
    if (error instanceof SearchAttributesMissing) throw error;
    const { connection, namespace } = configuration;
    const why = error instanceof Error ? messageOf(error) : String(error);
    throw new ConfigurationError([
      `TEMPORAL_ADDRESS ${connection.address}, TEMPORAL_NAMESPACE ${namespace}: ${why}`,
    ]);
  }
}

/** What lies at the bottom of an error says more than its wrappings. */
function messageOf(error: Error): string {
  return error.cause instanceof Error ? `${error.message}: ${messageOf(error.cause)}` : error.message;
}

try {
  // SIGTERM and SIGINT are taken by the SDK, which shuts the workers down; orchestrators must allow the grace time.
  const { done } = await start();
  await done;
} catch (error) {
  const expected = error instanceof ConfigurationError || error instanceof SearchAttributesMissing;
  console.error(expected ? error.message : error);
  // The SDK's runtime would keep the process alive.
  process.exit(1);
}
