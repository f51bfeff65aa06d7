/**
 * Builds the workflow bundles as a worker does, and fails if something that only Node has reaches a workflow.
 * Usage: node scripts/bundle.ts [folder to write them to, for HOOKLADDER_WORKFLOW_BUNDLE]
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleFile, bundleName } from '../src/bundle-file.ts';
import { bundleWorkflows } from '../src/workers.ts';

const [folder] = process.argv.slice(2);
if (folder !== undefined) await mkdir(folder, { recursive: true });
for (const traces of [false, true]) {
  const bundle = await bundleWorkflows({ traces });
  if (!('code' in bundle)) throw new Error('the bundle has no code');
  if (folder !== undefined) await writeFile(join(folder, bundleName(traces)), bundleFile(bundle.code));
  console.log(
    `workflow bundle${traces ? ', with traces' : ''}: ${(bundle.code.length / 1024).toFixed(0)} KiB`,
  );
}
