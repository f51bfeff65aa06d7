import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import { Hookladder } from '../src/client.ts';
import { SEARCH_ATTRIBUTES } from '../src/contract.ts';
import { startLocalServer } from '../src/local/server.ts';
import { findTemporalBinary } from '../src/local/temporal-binary.ts';
import type { PolicyOverrides } from '../src/policy/policy.ts';
import { bundleWorkflows } from '../src/workers.ts';
import {
  startReceiverProcess,
  startWorkerProcess,
  type ReceiverProcess,
  type WorkerProcess,
} from './child.ts';

const HOST = '127.0.0.1';
const KEYS = `bench:${Buffer.alloc(32, 7).toString('base64')}`;
export const SECRET = 'a secret of 20 bytes';
export const WEBHOOK = { type: 'payment.status_changed', body: '{"status":"pending"}' } as const;

/** Where a scenario runs: an embedded server in memory, the workers, and a receiver, each a process of its own. */
export interface Stand {
  readonly temporal: Client;
  /** A connection that retries like the workers' own. */
  readonly patient: Client;
  readonly worker: WorkerProcess;
  readonly receiver: ReceiverProcess;
  /** A client whose deliveries and merchants go by this policy. */
  readonly hooks: (policy?: PolicyOverrides) => Hookladder;
}

/** Runs on a stand of its own, so that what one scenario leaves behind does not burden the next. */
export async function onStand<T>(
  policy: PolicyOverrides | undefined,
  run: (stand: Stand) => Promise<T>,
): Promise<T> {
  // A proxy for the outside world has no way back to this machine.
  process.env['no_grpc_proxy'] = HOST;
  const cleanUp: (() => Promise<unknown>)[] = [];
  try {
    const binary = await findTemporalBinary({ log: (line) => console.error(line) });
    const server = await startLocalServer({
      binary: binary.path,
      headless: true,
      searchAttributes: SEARCH_ATTRIBUTES,
      dynamicConfig: {
        'matching.enableFairness': true,
        'system.forceSearchAttributesCacheRefreshOnRead': true,
      },
    });
    cleanUp.push(() => server.stop());
    const receiver = await startReceiverProcess();
    cleanUp.push(() => receiver.stop());
    const { address, namespace } = server;
    const worker = await startWorkerProcess({
      address,
      namespace,
      keys: KEYS,
      bundlePath: await bundlePath(cleanUp),
      ...(policy === undefined ? {} : { policy }),
    });
    cleanUp.push(() => worker.stop());
    const connection = await Connection.connect({ address });
    const patientConnection = await Connection.connect({ address, interceptors: [likeTheWorkers()] });
    cleanUp.push(() => Promise.all([connection.close(), patientConnection.close()]));
    const temporal = new Client({ connection, namespace });
    return await run({
      temporal,
      patient: new Client({ connection: patientConnection, namespace }),
      worker,
      receiver,
      hooks: (own = policy) =>
        new Hookladder({
          client: temporal,
          connectTimeoutMs: 30_000,
          secretKeys: { keys: KEYS },
          allowHttp: true,
          allowedNetworks: ['127.0.0.0/8'],
          ...(own === undefined ? {} : { policy: own }),
        }),
    });
  } finally {
    for (const each of cleanUp.toReversed()) await each();
  }
}

/** A merchant of its own for each measurement. */
export function freshMerchant(name: string): string {
  return `${name}-${randomUUID().slice(0, 8)}`;
}

async function bundlePath(cleanUp: (() => Promise<unknown>)[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hookladder-bench-'));
  cleanUp.push(() => rm(folder, { recursive: true }));
  const bundle = await bundleWorkflows();
  const path = join(folder, 'workflows.js');
  await writeFile(path, 'code' in bundle ? bundle.code : '');
  return path;
}

/** The workers retry refused signals sooner than the SDK does by default: with its 1.7 s we would measure something else. */
function likeTheWorkers() {
  return makeGrpcRetryInterceptor(
    defaultGrpcRetryOptions({
      initialIntervalMs: () => 30,
      factor: 1.5,
      maxIntervalMs: () => 500,
      maxAttempts: 40,
    }),
  );
}
