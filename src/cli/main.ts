#!/usr/bin/env node
/** Entry of the command line: `hookladder`. */
import { enableCompileCache } from 'node:module';

// Before anything else is loaded, so that what is loaded later is found compiled.
enableCompileCache();
await import('./program.ts');
