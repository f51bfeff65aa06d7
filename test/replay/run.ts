/**
 * `npm run histories`: records a history of every state that a workflow of this version can be in, for the replay test.
 * A release that has been recorded is left alone; `--replace` records it again, which is right only before its release.
 */
import { parseArgs } from 'node:util';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { VERSION } from '../../src/version.ts';
import { folderFor } from './recording.ts';
import { record } from './scenarios.ts';
import { Stand } from './stand.ts';

const { values } = parseArgs({ options: { replace: { type: 'boolean', default: false } } });
process.env['HOOKLADDER_ENCRYPTION'] = 'off';
Runtime.install({
  logger: new DefaultLogger('ERROR'),
  telemetryOptions: { logging: { forward: { level: 'ERROR' } } },
});

const folder = await folderFor(VERSION, values.replace).catch((error: NodeJS.ErrnoException) => {
  if (error.code !== 'EEXIST') throw error;
  console.error(
    `${VERSION} has been recorded: recordings of a release are never changed (--replace before it is one)`,
  );
  process.exit(2);
});
const stand = await Stand.open(folder);
try {
  await record(stand);
  console.log(`${stand.count} histories of ${VERSION}`);
} finally {
  await stand.close();
}
