import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { Hookladder } from '../src/client.ts';
import { patientRetry } from '../src/patient-retry.ts';
import type { PolicyOverrides } from '../src/policy/policy.ts';
import { bundleWorkflows } from '../src/workers.ts';
import {
  startReceiverProcess,
  startWorkerProcess,
  type ReceiverProcess,
  type WorkerProcess,
} from './child.ts';
import type { WorkerArguments } from './processes/worker.ts';
import { startCountingProxy, type CountingProxy } from './counting-proxy.ts';
import {
  connectTo,
  ENCRYPTION,
  plainAddressOf,
  startBenchServer,
  temporalOf,
  type BenchServer,
} from './temporal.ts';

export const KEYS = `bench:${Buffer.alloc(32, 7).toString('base64')}`;
export const SECRET = 'a secret of 20 bytes';
export const WEBHOOK = { type: 'payment.status_changed', body: '{"status":"pending"}' } as const;

/** Where a scenario runs: a Temporal server, the workers, and a receiver, each a process of its own. */
export interface Stand {
  readonly server: BenchServer;
  /** How the workers, the load and the clients of this stand reach the server: through the proxy, if there is one. */
  readonly environment: NodeJS.ProcessEnv;
  readonly proxy?: CountingProxy;
  readonly temporal: Client;
  /** A connection that retries like the workers' own: with the SDK's first pause of 1.7 s we would measure something else. */
  readonly patient: Client;
  readonly worker: WorkerProcess;
  readonly receiver: ReceiverProcess;
  /** Bundled workflow code and whatever else a scenario writes; removed at the end. */
  readonly folder: string;
  /** A client whose deliveries and merchants go by this policy. */
  readonly hooks: (policy?: PolicyOverrides) => Hookladder;
  /** Starts another process of workers, with these options of Node beside those of the stand. */
  readonly startWorker: (nodeOptions?: readonly string[]) => Promise<WorkerProcess>;
  /** Runs before the stand is taken down. */
  readonly atEnd: (cleanUp: () => Promise<unknown>) => void;
}

/** What of a stand differs between scenarios. */
export interface StandOptions extends Pick<
  WorkerArguments,
  'logFile' | 'maxConcurrentAttempts' | 'maxAttemptsPerMerchant'
> {
  /** Whether an embedded server keeps its state in a file, `temporal.db` in the stand's folder; in memory by default. */
  readonly onDisk?: boolean;
  /** Whether requests are counted. */
  readonly counted?: boolean;
  /** Options of Node for the workers. */
  readonly nodeOptions?: readonly string[];
}

/** Runs on a stand of its own, so that what one scenario leaves behind does not burden the next. */
export async function onStand<T>(
  policy: PolicyOverrides | undefined,
  run: (stand: Stand) => Promise<T>,
  { onDisk = false, counted = false, nodeOptions = [], ...workerOptions }: StandOptions = {},
): Promise<T> {
  const cleanUp: (() => Promise<unknown>)[] = [];
  try {
    const folder = await mkdtemp(join(tmpdir(), 'hookladder-bench-'));
    cleanUp.push(() => rm(folder, { recursive: true }));
    const server = await startBenchServer(onDisk ? join(folder, 'temporal.db') : undefined);
    cleanUp.push(() => server.stop());
    const proxy = counted ? await startCountingProxy(plainAddressOf(server.environment)) : undefined;
    if (proxy !== undefined) cleanUp.push(() => proxy.close());
    const environment = { ...server.environment, ...(proxy && { TEMPORAL_ADDRESS: proxy.address }) };
    const receiver = await startReceiverProcess();
    cleanUp.push(() => receiver.stop());
    const bundlePath = await writeBundle(join(folder, 'workflows.js'));
    const startWorker = async (more: readonly string[] = []): Promise<WorkerProcess> => {
      const given = policy === undefined ? {} : { policy };
      const started = await startWorkerProcess(
        { keys: KEYS, bundlePath, ...workerOptions, ...given },
        { environment, nodeOptions: [...nodeOptions, ...more] },
      );
      cleanUp.push(() => started.stop());
      return started;
    };
    const worker = await startWorker();
    const { namespace } = temporalOf(environment);
    const connection = await connectTo(environment);
    const patientConnection = await connectTo(environment, [patientRetry()]);
    cleanUp.push(() => Promise.all([connection.close(), patientConnection.close()]));
    const temporal = new Client({ connection, namespace });
    return await run({
      server,
      environment,
      ...(proxy === undefined ? {} : { proxy }),
      temporal,
      patient: new Client({ connection: patientConnection, namespace }),
      worker,
      receiver,
      folder,
      hooks: (own = policy) => hooksOf(temporal, own),
      startWorker,
      atEnd: (each) => cleanUp.push(each),
    });
  } finally {
    for (const each of cleanUp.toReversed()) await each();
  }
}

/** The product's client on a connection. */
export function hooksOf(client: Client, policy?: PolicyOverrides): Hookladder {
  return new Hookladder({
    client,
    connectTimeoutMs: 30_000,
    secretKeys: { keys: KEYS },
    encryption: ENCRYPTION,
    allowHttp: true,
    allowedNetworks: ['127.0.0.0/8'],
    ...(policy === undefined ? {} : { policy }),
  });
}

/** A merchant of its own for each measurement. */
export function freshMerchant(name: string): string {
  return `${name}-${randomUUID().slice(0, 8)}`;
}

async function writeBundle(path: string): Promise<string> {
  const bundle = await bundleWorkflows();
  await writeFile(path, 'code' in bundle ? bundle.code : '');
  return path;
}
