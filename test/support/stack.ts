import { Client, Connection } from '@temporalio/client';
import { randomUUID } from 'node:crypto';
import { inject } from 'vitest';
import { dataConverterOf, Hookladder, type Encryption } from '../../src/client.ts';
import { patientRetry } from '../../src/patient-retry.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import { startWorkers, type RunningWorkers } from '../../src/workers.ts';
import { temporalAddress } from './address.ts';

export { temporalAddress } from './address.ts';

/** One key for the whole suite, so that workers started anywhere open what any client sealed. */
export const SECRET_KEYS = { keys: `test:${Buffer.alloc(32, 7).toString('base64')}` };

/** Likewise for payloads. */
export const ENCRYPTION = { keys: process.env['HOOKLADDER_ENCRYPTION_KEYS'] ?? '' };

/** For what reads or writes payloads without our codec. */
export const PLAIN = { decryptOnly: ENCRYPTION };

/** The suite's receivers are on this machine. */
export const LOOPBACK = ['127.0.0.0/8'];

/** A client on the suite's server. */
export interface TestClient {
  readonly temporal: Client;
  readonly hooks: Hookladder;
  close(): Promise<void>;
}

/** Connects to the suite's Temporal server. */
export async function connectTestClient(
  policy?: PolicyOverrides,
  encryption: Encryption = ENCRYPTION,
): Promise<TestClient> {
  const connection = await Connection.connect({
    address: temporalAddress(),
    interceptors: [patientRetry()],
  });
  const temporal = new Client({ connection, dataConverter: dataConverterOf(encryption) });
  const hooks = new Hookladder({
    client: temporal,
    secretKeys: SECRET_KEYS,
    encryption,
    allowHttp: true,
    allowedNetworks: LOOPBACK,
    ...(policy === undefined ? {} : { policy }),
  });
  return { temporal, hooks, close: () => connection.close() };
}

/**
 * Starts workers on the suite's Temporal server, with the workflow code that the suite bundled once; where workers stand
 * already, they are these.
 */
export async function startTestWorkers(
  options: Partial<Parameters<typeof startWorkers>[0]> = {},
): Promise<RunningWorkers> {
  if (inject('standingWorkers')) {
    if (Object.keys(options).length > 0) throw new Error('this file needs workers of its own');
    const standing: Partial<RunningWorkers> = { shutdown: async () => undefined };
    return standing as RunningWorkers;
  }
  return await startWorkers({
    connection: { address: temporalAddress() },
    namespace: 'default',
    secretKeys: SECRET_KEYS,
    encryption: ENCRYPTION,
    allowedNetworks: LOOPBACK,
    workflowBundle: { codePath: inject('workflowBundlePath') },
    shutdownGraceMs: 5_000,
    ...options,
  });
}

/** A merchant id of its own for each test, since the tests share a server. */
export function freshMerchant(): string {
  return `m-${randomUUID()}`;
}
