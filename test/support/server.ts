import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { SEARCH_ATTRIBUTES } from '../../src/contract.ts';
import { startLocalServer, type LocalServer } from '../../src/local/server.ts';
import { findTemporalBinary } from '../../src/local/temporal-binary.ts';
import { bundleWorkflows } from '../../src/workers.ts';

declare module 'vitest' {
  interface ProvidedContext {
    temporalAddresses: readonly string[];
    temporalBinary: string;
    workflowBundlePath: string;
    /** Whether workers run already, so that tests start none. */
    standingWorkers: boolean;
    /** How Node runs a worker of the image, where processes are to be these. */
    imageWorker: { readonly args: string[]; readonly env: Record<string, string> } | undefined;
  }
}

/** A real Temporal server for each of the files that run side by side, and one workflow bundle for the whole suite. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const binary = await findTemporalBinary({ log: (line) => console.error(line) });
  const count = project.config.maxWorkers;
  const servers = await Promise.all(Array.from({ length: count }, () => startTestServer(binary.path)));
  const folder = await mkdtemp(join(tmpdir(), 'hookladder-test-'));
  const bundle = await bundleWorkflows();
  const workflowBundlePath = join(folder, 'workflows.js');
  await writeFile(workflowBundlePath, 'code' in bundle ? bundle.code : '');
  project.provide(
    'temporalAddresses',
    servers.map(({ address }) => address),
  );
  project.provide('temporalBinary', binary.path);
  project.provide('workflowBundlePath', workflowBundlePath);
  project.provide('standingWorkers', false);
  project.provide('imageWorker', undefined);
  return async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await rm(folder, { recursive: true });
  };
}

/** A server as the suite's, for a file that needs one of its own. */
export async function startTestServer(binary: string): Promise<LocalServer> {
  return await startLocalServer({
    binary,
    headless: true,
    searchAttributes: SEARCH_ATTRIBUTES,
    dynamicConfig: {
      'matching.enableFairness': true,
      'system.forceSearchAttributesCacheRefreshOnRead': true,
      'frontend.WorkflowTimeSkippingEnabled': true,
      // By default the server rounds short timers up to about a second.
      'history.timerProcessorMaxTimeShift': '10ms',
    },
  });
}
