/** The worker process: reads its environment, starts the workers, ends with them. */
import { ConfigurationError } from './configuration-error.ts';
import { readConfiguration, type ListenAddress, type WorkerConfiguration } from './configuration.ts';
import { startHealthServer, type HealthServer } from './health.ts';
import { messageOf } from './message-of.ts';
import { RetentionTooShort } from './retention.ts';
import { SearchAttributesMissing } from './search-attributes.ts';
import { installTelemetry } from './telemetry.ts';
import type { Traces } from './traces.ts';
import { startWorkers, type RunningWorkers } from './workers.ts';

interface Running {
  readonly workers: RunningWorkers;
  readonly traces: Traces | undefined;
  readonly health: HealthServer | undefined;
}

async function start(): Promise<Running> {
  const configuration = await readConfiguration(process.env);
  install(configuration);
  const traces = await tracesOf(configuration);
  const health = await healthOf(configuration);
  try {
    const workers = await startWorkers({ ...configuration, traces });
    health?.watch(workers.health);
    return { workers, traces, health };
  } catch (error) {
    if (isToldByItself(error)) throw error;
    const { connection, namespace } = configuration;
    const why = withCauses(error);
    throw new ConfigurationError([
      `TEMPORAL_ADDRESS ${connection.address}, TEMPORAL_NAMESPACE ${namespace}: ${why}`,
    ]);
  }
}

/** Loaded only where it is wanted. */
async function tracesOf({ traces }: WorkerConfiguration): Promise<Traces | undefined> {
  return traces && (await import('./traces.ts')).startTraces(traces);
}

/** Before all else: starting takes a while, and probes want an answer meanwhile. */
async function healthOf({ healthAddress }: WorkerConfiguration): Promise<HealthServer | undefined> {
  return (
    healthAddress &&
    (await startHealthServer(healthAddress).catch((error: unknown) => {
      throw cannotListen('HOOKLADDER_HEALTH_ADDRESS', healthAddress, error);
    }))
  );
}

function cannotListen(name: string, { host, port }: ListenAddress, error: unknown): ConfigurationError {
  return new ConfigurationError([`${name} ${host} port ${port}: ${withCauses(error)}`]);
}

function install({ logLevel, metricsAddress }: WorkerConfiguration): void {
  try {
    installTelemetry({ logLevel, ...(metricsAddress === undefined ? {} : { metricsAddress }) });
  } catch (error) {
    if (metricsAddress === undefined) throw error;
    throw cannotListen('HOOKLADDER_METRICS_ADDRESS', metricsAddress, error);
  }
}

function isToldByItself(error: unknown): error is Error {
  return (
    error instanceof ConfigurationError ||
    error instanceof SearchAttributesMissing ||
    error instanceof RetentionTooShort
  );
}

/** What lies at the bottom of an error says more than its wrappings. */
function withCauses(error: unknown): string {
  const isWrapped = error instanceof Error && error.cause instanceof Error;
  return isWrapped ? `${error.message}: ${withCauses(error.cause)}` : messageOf(error);
}

try {
  // SIGTERM and SIGINT are taken by the SDK, which shuts the workers down; orchestrators must allow the grace time.
  const { workers, traces, health } = await start();
  try {
    await workers.done;
  } finally {
    await traces?.shutdown();
    await health?.close();
  }
} catch (error) {
  console.error(isToldByItself(error) ? error.message : error);
  // The SDK's runtime would keep the process alive.
  process.exit(1);
}
