import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Client } from '@temporalio/client';
import { Runtime, type WorkerOptions } from '@temporalio/worker';
import { VERSION } from './version.ts';

/** As what Temporal knows the workers of a process, where it is to send tasks to one version of them only. */
export interface Versioning {
  /** Of all versions together, such as `hookladder`. */
  readonly deploymentName: string;
  /** Of this one. By default the version of the package and a hash of the workflow code, such as `0.1.0-1f6c2a90b3d4`. */
  readonly buildId?: string;
}

type Version = Required<Versioning>;
type Bundle = NonNullable<WorkerOptions['workflowBundle']>;

const HASH_DIGITS = 12;

/** The version of the workers of this process. */
export async function versionOf({ deploymentName, buildId }: Versioning, bundle: Bundle): Promise<Version> {
  return { deploymentName, buildId: buildId ?? (await buildIdOf(bundle)) };
}

async function buildIdOf(bundle: Bundle): Promise<string> {
  const code = 'code' in bundle ? bundle.code : await readFile(bundle.codePath);
  return `${VERSION}-${createHash('sha256').update(code).digest('hex').slice(0, HASH_DIGITS)}`;
}

/** Deliveries and entities outlive versions: each goes on with the newest that is current. */
export function deploymentOptions(version: Version): Pick<WorkerOptions, 'workerDeploymentOptions'> {
  return {
    workerDeploymentOptions: {
      version,
      useWorkerVersioning: true,
      defaultVersioningBehavior: 'AUTO_UPGRADE',
    },
  };
}

/** Says in the log whether Temporal gives tasks to this version, and otherwise what lets it do so. */
export async function tellWhetherCurrent(client: Client, version: Version): Promise<void> {
  const { logger } = Runtime.instance();
  const { deploymentName, buildId } = version;
  const { namespace } = client.options;
  // One that is not known yet has no current version either; a Temporal that will not tell is left alone.
  const described = await client.workflowService
    .describeWorkerDeployment({ namespace, deploymentName })
    .catch(() => undefined);
  const routing = described?.workerDeploymentInfo?.routingConfig;
  if (routing?.currentDeploymentVersion?.buildId === buildId) {
    logger.info('this version of the worker is current', { ...version });
    return;
  }
  logger.warn('this version of the worker gets no tasks until it is made current', {
    ...version,
    current: routing?.currentDeploymentVersion?.buildId ?? 'none',
    command: `temporal worker deployment set-current-version --deployment-name ${deploymentName} --build-id ${buildId}`,
  });
}
