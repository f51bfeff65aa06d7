#!/usr/bin/env node
/** Entry of the command line: `hookladder`. */
import * as module from 'node:module';

if (!('enableCompileCache' in module)) {
  console.error(`hookladder needs Node 22.19 or newer; this is ${process.version}`);
  process.exit(1);
}
// Before anything else is loaded, so that what is loaded later is found compiled.
module.enableCompileCache();
await import('./program.ts');
