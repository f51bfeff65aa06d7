/** The codec server as a process: reads its environment, serves until it is told to end. */
import { once } from 'node:events';
import { pino } from 'pino';
import { ConfigurationError } from '../configuration-error.ts';
import { codecOf } from '../encryption/encryption.ts';
import { readCodecServerConfiguration } from './configuration.ts';
import { startCodecServer } from './server.ts';

/**
 * Runs until SIGINT or SIGTERM.
 * @throws {@link ConfigurationError}, also if it cannot listen.
 */
export async function runCodecServer(environment: NodeJS.ProcessEnv): Promise<void> {
  const { encryption, ...settings } = await readCodecServerConfiguration(environment);
  const log = pino({ base: null, timestamp: pino.stdTimeFunctions.isoTime });
  const server = await startCodecServer({
    ...settings,
    codec: codecOf(encryption),
    onRequest: (request) => log[request.status < 400 ? 'info' : 'warn'](request, 'request'),
  }).catch((error: NodeJS.ErrnoException) => {
    const { host, port } = settings;
    throw new ConfigurationError(
      [`HOOKLADDER_CODEC_HOST ${host}, _PORT ${port}: ${error.message}`],
      'the codec server',
    );
  });
  log.info({ url: server.url }, 'codec server is listening');
  await Promise.race(['SIGINT', 'SIGTERM'].map(async (signal) => await once(process, signal)));
  await server.close();
}
