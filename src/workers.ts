import { Client, Connection } from '@temporalio/client';
import {
  bundleWorkflowCode,
  DefaultLogger,
  NativeConnection,
  Runtime,
  Worker,
  type WorkerOptions,
} from '@temporalio/worker';
import { fileURLToPath } from 'node:url';
import { createDeliveryActivities } from './activities/attempt.ts';
import { createBulkActivities } from './activities/bulk.ts';
import { createCensusActivities } from './activities/census.ts';
import { EgressWatch } from './activities/egress.ts';
import { GateReader } from './activities/gate-reader.ts';
import { Places } from './activities/places.ts';
import { Reporter } from './activities/reporter.ts';
import { createNoticeActivities, type NoticeHook } from './activities/notices.ts';
import { createMerchantActivities } from './activities/wake.ts';
import { DeliveryHandle } from './client/delivery-handle.ts';
import { TemporalCalls } from './client/temporal-calls.ts';
import {
  CENSUS_WORKFLOW,
  CENSUS_WORKFLOW_ID,
  deliveryIds,
  DELIVERY_TASK_QUEUE,
  MERCHANT_TASK_QUEUE,
  OPERATOR_MERCHANT,
} from './contract.ts';
import { codecOf, type Encryption } from './encryption/encryption.ts';
import { AddressGuard } from './http/address-guard.ts';
import { Sender } from './http/sender.ts';
import type { KeySource } from './key-list.ts';
import { reportToMerchant } from './merchants.ts';
import { createMetrics } from './metrics.ts';
import { egressNotice, operatorWebhook } from './notices.ts';
import { patientRetry } from './patient-retry.ts';
import type { DeliveryState } from './policy/status.ts';
import type { PolicyOverrides } from './policy/policy.ts';
import { checkRetention, ENOUGH_DAYS } from './retention.ts';
import { checkSearchAttributes } from './search-attributes.ts';
import { SecretBox } from './secrets.ts';
import type { Traces } from './traces.ts';
import { deploymentOptions, tellWhetherCurrent, versionOf, type Versioning } from './versioning.ts';
import { WorkerHealth } from './worker-health.ts';
import type { Report } from './workflows/messages.ts';

/** Workflow code, bundled beforehand. */
export type WorkflowBundleOption = NonNullable<WorkerOptions['workflowBundle']>;

/** How the SDK connects; the same options serve the worker's own connection and its client. */
export type TemporalConnection = Pick<
  NonNullable<Parameters<typeof NativeConnection.connect>[0]>,
  'address' | 'tls' | 'apiKey' | 'metadata'
>;

/** What the workers of one process need. */
export interface WorkersOptions {
  readonly connection: TemporalConnection;
  readonly namespace: string;
  /** Keys that open merchants' secrets. */
  readonly secretKeys: KeySource;
  /** How payloads are encrypted; clients need the same keys. */
  readonly encryption: Encryption;
  /** Attempts under way at once in this process; 100 by default. */
  readonly maxConcurrentAttempts?: number;
  /** Attempts under way at once for one merchant in this process; 8 by default. */
  readonly maxAttemptsPerMerchant?: number;
  /**
   * R3: CIDRs of networks that are not public and that webhooks may reach all the same, such as `10.1.0.0/16`;
   * none by default.
   */
  readonly allowedNetworks?: readonly string[];
  /** Certificates in PEM that are trusted beside the roots of Node and of the operating system. */
  readonly trustedCertificates?: readonly string[];
  /** A forward proxy that all webhooks go through: `http://` or `https://`, with user and password if it wants them. */
  readonly egressProxy?: URL;
  /** How long attempts under way may take to finish at shutdown, milliseconds; 30,000 by default. */
  readonly shutdownGraceMs?: number;
  /**
   * Workflows that stay in memory between two tasks, of deliveries and of merchants each; 500 by default. Others are
   * replayed when something happens to them.
   */
  readonly maxCachedWorkflows?: number;
  /** Whether the namespace may keep closed workflows for less than 3 days; for tests. False by default. */
  readonly acceptShortRetention?: boolean;
  /** For merchants whose entity this process starts; for tests and demos. */
  readonly policy?: PolicyOverrides;
  /** OpenTelemetry traces of deliveries; none by default. */
  readonly traces?: Traces | undefined;
  /**
   * Metrics on the meter of the SDK's runtime, which shows them if it was installed with an exporter. Without this,
   * nothing is counted by visibility.
   */
  readonly metrics?: { readonly byMerchant: boolean };
  /** Whom operators are told by, and after how long of a delivery that is held, milliseconds. Without it, nobody is told. */
  readonly notices?: { readonly hook: 'operator' | NoticeHook; readonly heldAfterMs: number };
  /**
   * Temporal sends tasks to the version that was made current; without this, to any worker. A version that nobody has made
   * current gets none.
   */
  readonly versioning?: Versioning;
  /** Made beforehand by {@link bundleWorkflows}, for traces with them; otherwise made now. */
  readonly workflowBundle?: WorkflowBundleOption | undefined;
}

/** The workers of one process, at work. */
export interface RunningWorkers {
  readonly health: WorkerHealth;
  /** Resolves when all have shut down; rejects if one failed. */
  readonly done: Promise<void>;
  /** Lets attempts under way finish, reports what is gathered, closes the connections. Resolves like `done`. */
  shutdown(): Promise<void>;
}

const ASK_WITHIN_MS = 10_000;

/** Files are TypeScript in the repository and JavaScript in the published package. */
const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
const pathOf = (file: string) => fileURLToPath(new URL(`./workflows/${file}.${extension}`, import.meta.url));
/** Modules that a worker, and a replay, needs beside the bundle. */
export const converterPaths = {
  payloadConverterPath: pathOf('payload-converter'),
  failureConverterPath: pathOf('failure-converter'),
};

/**
 * Bundles the workflows; it takes a second or two and can be shared by many workers.
 * @param traces - for workers that trace; others do without what it takes.
 * @param workflowsPath - a module whose workflows are to run instead of the product's own.
 */
export async function bundleWorkflows({
  traces = false,
  workflowsPath = pathOf('index'),
} = {}): Promise<WorkflowBundleOption> {
  const interceptors = traces ? [pathOf('traces')] : [];
  const { code } = await bundleWorkflowCode({
    workflowsPath,
    workflowInterceptorModules: interceptors,
    // Run once and frozen instead of anew for each workflow: the modules of workflows keep no state.
    preloadModules: [workflowsPath, ...interceptors],
    ...converterPaths,
    logger: new DefaultLogger('WARN', ({ level, message, meta }) =>
      Runtime.instance().logger.log(level, message, meta),
    ),
  });
  return { code };
}

/**
 * Starts one worker for deliveries and one for merchants' entities: on a queue of their own, they never wait
 * behind a backlog of deliveries.
 */
export async function startWorkers(options: WorkersOptions): Promise<RunningWorkers> {
  const connection = await NativeConnection.connect(options.connection);
  const clientConnection = Connection.lazy({ ...options.connection, interceptors: [patientRetry()] });
  const close = async (): Promise<void> => {
    await clientConnection.close();
    await connection.close();
  };
  try {
    return await startOn(connection, clientConnection, close, options);
  } catch (error) {
    // An open connection would keep the process alive.
    await close();
    throw error;
  }
}

async function startOn(
  connection: NativeConnection,
  clientConnection: Connection,
  close: () => Promise<void>,
  options: WorkersOptions,
): Promise<RunningWorkers> {
  const { namespace, traces } = options;
  const codec = codecOf(options.encryption);
  // A worker without a key to encrypt with could not even tell what is wrong.
  await codec.encode([{}]);
  const dataConverter = { payloadCodecs: [codec] };
  const client = new Client({ connection: clientConnection, namespace, dataConverter });
  await checkSearchAttributes(client);
  await warnOfRetention(client, options.acceptShortRetention ?? false);
  if (options.metrics !== undefined) await startCensus(client);
  const sender = new Sender({
    guard: new AddressGuard({ allow: options.allowedNetworks ?? [] }),
    trustedCertificates: options.trustedCertificates,
    egressProxy: options.egressProxy,
  });
  const metrics = createMetrics(Runtime.instance().metricMeter, { namespace, ...options.metrics });
  const hook = options.notices?.hook === 'operator' ? operatorWebhook(client) : options.notices?.hook;
  const egress = new EgressWatch((change) => {
    const { logger } = Runtime.instance();
    metrics.egressSuspected(change.suspected);
    const fields = { ...change, since: new Date(change.since).toISOString() };
    if (!change.suspected) return logger.info('our own egress works again', fields);
    const notice = egressNotice(change);
    logger.warn('our own egress is suspected', { ...fields, remedy: notice.remedy });
    void Promise.resolve(hook?.(notice)).catch((error: unknown) =>
      logger.error('operators could not be told', { notice: notice.id, error }),
    );
  });
  const gate = new GateReader(client);
  const reporter = new Reporter(async (merchantId, report) => {
    const lastView = async () => await gate.readFresh(merchantId);
    try {
      const told =
        options.notices === undefined || merchantId === OPERATOR_MERCHANT
          ? report
          : { ...report, notices: true as const };
      await reportToMerchant(client, merchantId, told, lastView, options.policy);
      metrics.reported(entriesOf(report));
    } catch (error) {
      metrics.reportFailed();
      throw error;
    }
  });
  const workflowBundle = options.workflowBundle ?? (await bundleWorkflows({ traces: traces !== undefined }));
  const version = options.versioning && (await versionOf(options.versioning, workflowBundle));
  const shared = {
    connection,
    namespace,
    workflowBundle,
    ...(version && deploymentOptions(version)),
    dataConverter: { ...dataConverter, ...converterPaths },
    sinks: metrics.sinks,
    shutdownGraceTime: options.shutdownGraceMs ?? 30_000,
    maxCachedWorkflows: options.maxCachedWorkflows ?? 500,
  } satisfies Partial<WorkerOptions>;
  const deliveries = await Worker.create({
    ...shared,
    ...traces?.workerOptions,
    sinks: { ...shared.sinks, ...traces?.workerOptions.sinks },
    taskQueue: DELIVERY_TASK_QUEUE,
    maxConcurrentActivityTaskExecutions: options.maxConcurrentAttempts ?? 100,
    activities: createDeliveryActivities({
      gate,
      places: new Places(options.maxAttemptsPerMerchant),
      reporter,
      secrets: new SecretBox(options.secretKeys),
      sender: traces?.sender(sender) ?? sender,
      egress,
      metrics,
      notices: options.notices && { heldAfterMs: options.notices.heldAfterMs },
    }),
  });
  const merchants = await Worker.create({
    ...shared,
    taskQueue: MERCHANT_TASK_QUEUE,
    // R46: a drain hears by a heartbeat that it must stop.
    maxHeartbeatThrottleInterval: 500,
    activities: {
      ...createMerchantActivities({ client, metrics }),
      ...createNoticeActivities(hook),
      ...createCensusActivities({
        client,
        show: options.metrics === undefined ? undefined : metrics.census,
        isRunning: () => merchants.getState() === 'RUNNING',
      }),
      ...createBulkActivities({ client, stateOf: async (workflowId) => await stateOf(client, workflowId) }),
    },
  });
  if (version !== undefined) await tellWhetherCurrent(client, version);
  const workers = [deliveries, merchants];
  const stop = () =>
    workers.filter((worker) => worker.getState() === 'RUNNING').forEach((worker) => worker.shutdown());
  // If one fails the other is of no use: both end, and the failure is told.
  const runs = workers.map((worker) => worker.run().finally(stop));
  const done = Promise.allSettled(runs).then(async (results) => {
    await reporter.flush();
    sender.close();
    await close();
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  });
  return {
    health: new WorkerHealth(client, workers),
    done,
    async shutdown() {
      stop();
      await done;
    },
  };
}

async function warnOfRetention(client: Client, accept: boolean): Promise<void> {
  const days = await checkRetention(client, accept);
  if (days === undefined) return;
  Runtime.instance().logger.warn('the namespace keeps closed workflows for less than 30 days', {
    days,
    remedy: `temporal operator namespace update --namespace ${client.options.namespace} --retention ${ENOUGH_DAYS * 24}h`,
  });
}

/** One for all workers: it is there already unless this is the first. */
async function startCensus(client: Client): Promise<void> {
  await client.workflow.start(CENSUS_WORKFLOW, {
    workflowId: CENSUS_WORKFLOW_ID,
    taskQueue: MERCHANT_TASK_QUEUE,
    workflowIdConflictPolicy: 'USE_EXISTING',
    staticSummary: 'counts open deliveries and breakers for the metrics',
  });
}

function entriesOf(report: Report): number {
  return Object.values(report).reduce(
    (sum: number, part) => sum + (Array.isArray(part) ? part.length : 0),
    0,
  );
}

/** R90: as the delivery says itself. */
async function stateOf(client: Client, workflowId: string): Promise<DeliveryState> {
  const { merchantId, webhookId } = deliveryIds(workflowId);
  const calls = new TemporalCalls(client, ASK_WITHIN_MS);
  return (await new DeliveryHandle(calls, merchantId, webhookId).status()).state;
}
