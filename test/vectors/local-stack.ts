import '../support/quiet.ts';
import { Client, Connection } from '@temporalio/client';
import { Runtime } from '@temporalio/worker';
import { Hookladder } from '../../src/client.ts';
import { SEARCH_ATTRIBUTES } from '../../src/contract.ts';
import { dataConverterOf, encryptionOf } from '../../src/encryption/encryption.ts';
import { startLocalServer } from '../../src/local/server.ts';
import { findTemporalBinary } from '../../src/local/temporal-binary.ts';
import { newKey } from '../../src/key-list.ts';
import { startWorkers } from '../../src/workers.ts';
import { NO_BREAKER } from '../support/time-skipping.ts';
import { LadderStand } from './ladder-stand.ts';

const LOOPBACK = ['127.0.0.0/8'];

type Closer = () => Promise<void>;

/** All that ladder cases need, in this process. */
export interface LocalStack {
  readonly stand: LadderStand;
  close(): Promise<void>;
}

/**
 * Starts workers, a receiver and a Temporal server; or uses the server at `TEMPORAL_ADDRESS`, which must have
 * time skipping enabled. If other workers run there, `HOOKLADDER_SECRET_KEYS` must be theirs.
 */
export async function openLocalStack(
  environment: NodeJS.ProcessEnv,
  log: (line: string) => void,
): Promise<LocalStack> {
  const secretKeys = { keys: environment['HOOKLADDER_SECRET_KEYS'] ?? newKey('vectors') };
  const encryption = encryptionOf(environment);
  // The last worker's end ends the native runtime too; if none comes to be, it would keep this process alive.
  const closers: Closer[] = [() => Runtime.instance().shutdown()];
  const close: Closer = async () => {
    for (const each of closers.toReversed()) await each();
  };
  try {
    const address = environment['TEMPORAL_ADDRESS'] || (await startServer(closers, log));
    const connection = await Connection.connect({ address });
    closers.push(() => connection.close());
    const client = new Client({ connection, dataConverter: dataConverterOf(encryption) });
    log('starting workers');
    const workers = await startWorkers({
      connection: { address },
      namespace: client.options.namespace,
      secretKeys,
      encryption,
      allowedNetworks: LOOPBACK,
      shutdownGraceMs: 5_000,
    });
    closers.push(() => workers.shutdown());
    const hooks = new Hookladder({
      client,
      secretKeys,
      encryption,
      allowHttp: true,
      allowedNetworks: LOOPBACK,
      policy: NO_BREAKER,
    });
    const stand = await LadderStand.open(client, hooks);
    closers.push(() => stand.close());
    return { stand, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function startServer(closers: Closer[], log: (line: string) => void): Promise<string> {
  const { path } = await findTemporalBinary({ log });
  log('starting a Temporal server');
  const server = await startLocalServer({
    binary: path,
    headless: true,
    searchAttributes: SEARCH_ATTRIBUTES,
    dynamicConfig: {
      'frontend.WorkflowTimeSkippingEnabled': true,
      // By default the server takes up to a second to see that a skip has made a timer due: 5.5 s for a slow ladder, not 0.6 s.
      'history.timerProcessorMaxTimeShift': '10ms',
    },
  });
  closers.push(() => server.stop());
  return server.address;
}
