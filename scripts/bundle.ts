/** Builds the workflow bundle as a worker does, and fails if something that only Node has reaches a workflow. */
import { bundleWorkflows } from '../src/workers.ts';

const bundle = await bundleWorkflows();
if (!('code' in bundle)) throw new Error('the bundle has no code');
console.log(`workflow bundle: ${(bundle.code.length / 1024).toFixed(0)} KiB`);
