import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import type { TopologyFacts } from './topology.ts';

declare module 'vitest' {
  interface ProvidedContext {
    topology: TopologyFacts;
  }
}

/** Tells tests of the topology that runs, in place of servers of their own. */
export default function setup(project: TestProject): void {
  const facts = JSON.parse(process.env['HOOKLADDER_TOPOLOGY'] ?? '') as TopologyFacts;
  const { address, cli, image, standingWorkers } = facts;
  const bundle = join(image, 'workflow-bundle');
  project.provide('topology', facts);
  project.provide('temporalAddresses', [address]);
  project.provide('temporalBinary', cli);
  project.provide('workflowBundlePath', join(bundle, 'workflows.js'));
  project.provide('standingWorkers', standingWorkers);
  project.provide('imageWorker', {
    args: [join(image, 'dist', 'cli', 'main.js'), 'worker'],
    env: { NODE_ENV: 'production', HOOKLADDER_WORKFLOW_BUNDLE: bundle },
  });
}
