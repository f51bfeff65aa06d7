import { inject } from 'vitest';
import { spawnWorker, type WorkerProcess } from './spawn-worker.ts';
import { ENCRYPTION, LOOPBACK, SECRET_KEYS, temporalAddress } from './stack.ts';

export type { WorkerProcess };

/** Starts a worker process on the suite's server and resolves when both of its workers poll. */
export async function startWorkerProcess(environment: Record<string, string> = {}): Promise<WorkerProcess> {
  const keys =
    'HOOKLADDER_SECRET_KEYS_FILE' in environment ? {} : { HOOKLADDER_SECRET_KEYS: SECRET_KEYS.keys };
  const image = inject('imageWorker');
  const settings = {
    ...image?.env,
    TEMPORAL_ADDRESS: temporalAddress(),
    HOOKLADDER_ALLOWED_NETWORKS: LOOPBACK.join(','),
    HOOKLADDER_ENCRYPTION_KEYS: ENCRYPTION.keys,
    ...keys,
    ...environment,
  };
  return await spawnWorker(settings, image?.args);
}
