/** The worker process: reads its environment, starts the workers, ends with them. */
import { ConfigurationError } from './configuration-error.ts';
import { readConfiguration, type WorkerConfiguration } from './configuration.ts';
import { SearchAttributesMissing } from './search-attributes.ts';
import { installTelemetry } from './telemetry.ts';
import type { Traces } from './traces.ts';
import { startWorkers, type RunningWorkers } from './workers.ts';

async function start(): Promise<{ workers: RunningWorkers; traces: Traces | undefined }> {
  const configuration = await readConfiguration(process.env);
  install(configuration);
  const traces = await tracesOf(configuration);
  try {
    const workers = await startWorkers({ ...configuration, traces });
    return { workers, traces };
  } catch (error) {
    if (error instanceof SearchAttributesMissing) throw error;
    const { connection, namespace } = configuration;
    const why = error instanceof Error ? messageOf(error) : String(error);
    throw new ConfigurationError([
      `TEMPORAL_ADDRESS ${connection.address}, TEMPORAL_NAMESPACE ${namespace}: ${why}`,
    ]);
  }
}

/** Loaded only where it is wanted. */
async function tracesOf({ traces }: WorkerConfiguration): Promise<Traces | undefined> {
  return traces && (await import('./traces.ts')).startTraces(traces);
}

function install({ logLevel, metricsAddress }: WorkerConfiguration): void {
  try {
    installTelemetry({ logLevel, ...(metricsAddress === undefined ? {} : { metricsAddress }) });
  } catch (error) {
    if (metricsAddress === undefined) throw error;
    const { host, port } = metricsAddress;
    throw new ConfigurationError([
      `HOOKLADDER_METRICS_ADDRESS ${host} port ${port}: ${error instanceof Error ? messageOf(error) : String(error)}`,
    ]);
  }
}

/** What lies at the bottom of an error says more than its wrappings. */
function messageOf(error: Error): string {
  return error.cause instanceof Error ? `${error.message}: ${messageOf(error.cause)}` : error.message;
}

try {
  // SIGTERM and SIGINT are taken by the SDK, which shuts the workers down; orchestrators must allow the grace time.
  const { workers, traces } = await start();
  try {
    await workers.done;
  } finally {
    await traces?.shutdown();
  }
} catch (error) {
  const expected = error instanceof ConfigurationError || error instanceof SearchAttributesMissing;
  console.error(expected ? error.message : error);
  // The SDK's runtime would keep the process alive.
  process.exit(1);
}
