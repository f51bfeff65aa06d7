import { Connection } from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { SEARCH_ATTRIBUTES } from '../src/contract.ts';
import { startLocalServer } from '../src/local/server.ts';
import { findTemporalBinary } from '../src/local/temporal-binary.ts';
import type { TemporalConnection } from '../src/workers.ts';

const HOST = '127.0.0.1';
/** Of payloads: what is measured is the engine and the product on it. */
export const ENCRYPTION = 'off';

/** The Temporal server that is measured with. */
export interface BenchServer {
  /** What a process of the benchmark finds it by. */
  readonly environment: NodeJS.ProcessEnv;
  /** Missing if it is not ours: then what it uses is not known. */
  readonly pid?: number;
  stop(): Promise<void>;
}

/** Whether the server is not ours but the one that the environment names. */
export function isForeignServer(): boolean {
  return Boolean(process.env['TEMPORAL_ADDRESS']);
}

/**
 * The server of `TEMPORAL_ADDRESS`, or an embedded one of our own.
 * @param dbFile - where an embedded one keeps its state; in memory by default.
 */
export async function startBenchServer(dbFile?: string): Promise<BenchServer> {
  if (isForeignServer()) {
    return { environment: process.env, stop: async () => undefined };
  }
  const binary = await findTemporalBinary({ log: (line) => console.error(line) });
  const server = await startLocalServer({
    binary: binary.path,
    headless: true,
    searchAttributes: SEARCH_ATTRIBUTES,
    dynamicConfig: {
      'matching.enableFairness': true,
      'system.forceSearchAttributesCacheRefreshOnRead': true,
    },
    ...(dbFile === undefined ? {} : { dbFile }),
  });
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith('TEMPORAL_'));
  return {
    environment: {
      ...Object.fromEntries(others),
      TEMPORAL_ADDRESS: server.address,
      TEMPORAL_NAMESPACE: server.namespace,
      // A proxy for the outside world has no way back to this machine.
      no_grpc_proxy: HOST,
    },
    ...(server.process.pid === undefined ? {} : { pid: server.process.pid }),
    stop: () => server.stop(),
  };
}

/** How to reach the server that an environment names. */
export function temporalOf(environment: NodeJS.ProcessEnv): {
  readonly connection: TemporalConnection;
  readonly namespace: string;
} {
  const given = Object.entries(environment).filter(([, value]) => value !== undefined);
  const { connectionOptions, namespace = 'default' } = loadClientConnectConfig({
    overrideEnvVars: Object.fromEntries(given) as Record<string, string>,
  });
  return { connection: connectionOptions, namespace };
}

/** A connection for a client. */
export async function connectTo(
  environment: NodeJS.ProcessEnv,
  interceptors: NonNullable<Parameters<typeof Connection.connect>[0]>['interceptors'] = [],
): Promise<Connection> {
  const { no_grpc_proxy: noProxy } = environment;
  if (noProxy !== undefined) process.env['no_grpc_proxy'] = noProxy;
  return await Connection.connect({ ...temporalOf(environment).connection, interceptors });
}

/**
 * The address of a server that is reached without TLS.
 * @throws for another: the counting proxy cannot stand before it.
 */
export function plainAddressOf(environment: NodeJS.ProcessEnv): string {
  const { address = 'localhost:7233', tls, apiKey } = temporalOf(environment).connection;
  if (tls || apiKey) throw new Error('requests can be counted only at a server without TLS');
  return address;
}
