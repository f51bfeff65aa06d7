import { once } from 'node:events';
import { Client, Connection } from '@temporalio/client';
import { destination } from 'pino';
import { Hookladder } from '../client.ts';
import { SEARCH_ATTRIBUTES } from '../contract.ts';
import { openAccess } from '../codec-server/access.ts';
import { LOOPBACK_NAMES } from '../codec-server/configuration.ts';
import { startCodecServer, type CodecServer } from '../codec-server/server.ts';
import { codecOf, dataConverterOf } from '../encryption/encryption.ts';
import type { PolicyOverrides } from '../policy/policy.ts';
import { installTelemetry } from '../telemetry.ts';
import { startWorkers, type RunningWorkers } from '../workers.ts';
import { isPortTaken } from './free-port.ts';
import { startLocalServer, type LocalServer } from './server.ts';
import { ensureKeyFiles, prepareStateFolder, type StateFolder } from './state-folder.ts';
import { findTemporalBinary } from './temporal-binary.ts';

const HOST = '127.0.0.1';
/** The receivers of a demo are on this machine. */
export const LOCAL_NETWORKS = ['127.0.0.0/8', '::1/128'];
/** The ports of Temporal's dev server, which its tools try by themselves. */
const USUAL_PORT = 7233;
const USUAL_UI_PORT = 8233;
const USUAL_CODEC_PORT = 8234;
/** Attempts under way at a Ctrl-C may take this long to finish. */
const SHUTDOWN_GRACE_MS = 10_000;

export interface LocalStackOptions {
  /** Where the state is kept from one start to the next. Default: `.hookladder` in the project. */
  readonly stateFolder?: string;
  /** Numbers that differ from the published rules, for all deliveries and merchants of this process. */
  readonly policy?: PolicyOverrides;
  /** Told about progress and anything unusual, a line at a time. */
  readonly log: (line: string) => void;
  /** Ends the start: what has been started is stopped, and the reason of the signal is thrown. */
  readonly signal: AbortSignal;
}

/** A Temporal server, the workers and a client, all in or beside this process. */
export interface LocalStack {
  /** Host and port of Temporal's frontend. */
  readonly address: string;
  readonly uiUrl: string;
  /** Where the UI, and `temporal --codec-endpoint`, have payloads decoded. */
  readonly codecUrl: string;
  readonly namespace: string;
  readonly temporal: Client;
  /** Hands over webhooks; endpoints may be plain http and on this machine. */
  readonly hooks: Hookladder;
  readonly keysFile: string;
  readonly encryptionKeysFile: string;
  readonly workerLogFile: string;
  /** Resolves with the reason if the server or the workers end and nobody asked for it. */
  readonly lost: Promise<string>;
  /** Ends the workers, which finish their attempts, and then the server. */
  stop(): Promise<void>;
  /** Ends the server at once. */
  kill(): void;
}

/**
 * Starts an embedded Temporal server with its UI, and the workers. On the usual ports if they are free, else on others.
 * May be called once in a process: the SDK's logs go to the worker log from then on. The SDK also takes SIGINT and
 * SIGTERM and shuts the workers down by itself.
 * @throws the errors of `findTemporalBinary` and `startLocalServer`; {@link LocalStateNotUsable}
 */
export async function startLocalStack(options: LocalStackOptions): Promise<LocalStack> {
  const { log } = options;
  const state = await prepareStateFolder(options.stateFolder);
  const aborted = rejectWhenAborted(options.signal);
  // A download cannot be cancelled, so it is left behind.
  const { path } = await Promise.race([findTemporalBinary({ log }), aborted]);
  await ensureKeyFiles(state);
  const uiOrigins = new Set<string>();
  const codecServer = await startStackCodecServer(state, uiOrigins);
  try {
    return await startBeside(codecServer, uiOrigins, path, state, options, aborted);
  } catch (error) {
    await codecServer.close();
    throw error;
  }
}

async function startBeside(
  codecServer: CodecServer,
  uiOrigins: Set<string>,
  binary: string,
  state: StateFolder,
  options: LocalStackOptions,
  aborted: Promise<never>,
): Promise<LocalStack> {
  const { log } = options;
  log('starting the Temporal server …');
  const server = await startServer(binary, state, codecServer.url, log);
  const uiPort = new URL(uiUrlOf(server)).port;
  for (const host of [HOST, 'localhost']) uiOrigins.add(`http://${host}:${uiPort}`);
  try {
    options.signal.throwIfAborted();
    log('starting the workers …');
    installTelemetry({
      logLevel: 'info',
      logTo: destination({ dest: state.workerLogFile, append: false }),
    });
    // A proxy for the outside world has no way back to this machine.
    process.env['no_grpc_proxy'] = HOST;
    const connection = await Promise.race([Connection.connect({ address: server.address }), aborted]);
    // Until this resolves the workers have taken nothing that would have to be finished.
    const workers = await Promise.race([startStackWorkers(server, state, options), aborted]);
    return stackOf({ server, codecServer, connection, workers }, state, options);
  } catch (error) {
    await server.stop();
    throw error;
  }
}

async function startServer(
  binary: string,
  { dbFile }: StateFolder,
  uiCodecEndpoint: string,
  log: LocalStackOptions['log'],
): Promise<LocalServer> {
  const portTaken = await isPortTaken(HOST, USUAL_PORT);
  const uiPortTaken = await isPortTaken(HOST, USUAL_UI_PORT);
  const server = await startLocalServer({
    binary,
    dbFile,
    uiCodecEndpoint,
    log,
    searchAttributes: SEARCH_ATTRIBUTES,
    dynamicConfig: {
      'matching.enableFairness': true,
      'system.forceSearchAttributesCacheRefreshOnRead': true,
    },
    ...(portTaken ? {} : { port: USUAL_PORT }),
    ...(uiPortTaken ? {} : { uiPort: USUAL_UI_PORT }),
  });
  if (portTaken)
    log(`port ${USUAL_PORT} is taken by another program: Temporal is at ${server.address} instead`);
  if (uiPortTaken)
    log(`port ${USUAL_UI_PORT} is taken by another program: the UI is at ${uiUrlOf(server)} instead`);
  return server;
}

/** Open to this machine, as the UI is, and to no page but the UI's. */
async function startStackCodecServer(
  { encryptionKeysFile }: StateFolder,
  origins: ReadonlySet<string>,
): Promise<CodecServer> {
  const portTaken = await isPortTaken(HOST, USUAL_CODEC_PORT);
  return await startCodecServer({
    codec: codecOf({ keysFile: encryptionKeysFile }),
    access: openAccess,
    host: HOST,
    port: portTaken ? 0 : USUAL_CODEC_PORT,
    origins,
    hosts: LOOPBACK_NAMES,
  });
}

async function startStackWorkers(
  { address, namespace }: LocalServer,
  { keysFile, encryptionKeysFile }: StateFolder,
  { policy }: LocalStackOptions,
): Promise<RunningWorkers> {
  return await startWorkers({
    connection: { address },
    namespace,
    secretKeys: { keysFile },
    encryption: { keysFile: encryptionKeysFile },
    allowedNetworks: LOCAL_NETWORKS,
    shutdownGraceMs: SHUTDOWN_GRACE_MS,
    ...(policy === undefined ? {} : { policy }),
  });
}

interface Parts {
  readonly server: LocalServer;
  readonly codecServer: CodecServer;
  readonly connection: Connection;
  readonly workers: RunningWorkers;
}

function stackOf(
  { server, codecServer, connection, workers }: Parts,
  { keysFile, encryptionKeysFile, workerLogFile }: StateFolder,
  { policy, signal }: LocalStackOptions,
): LocalStack {
  const { address, namespace } = server;
  const encryption = { keysFile: encryptionKeysFile };
  const temporal = new Client({ connection, namespace, dataConverter: dataConverterOf(encryption) });
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await workers.shutdown();
    await connection.close();
    await server.stop();
    await codecServer.close();
  };
  const lost = Promise.withResolvers<string>();
  const tellIfUnwanted = (reason: string): void => {
    if (stopping === undefined && !signal.aborted) lost.resolve(reason);
  };
  void once(server.process, 'exit').then(() => tellIfUnwanted('the Temporal server ended by itself'));
  void workers.done.then(
    () => tellIfUnwanted('the workers ended by themselves'),
    (error: unknown) => tellIfUnwanted(`the workers failed: ${String(error)}`),
  );
  return {
    address,
    uiUrl: uiUrlOf(server),
    codecUrl: codecServer.url,
    namespace,
    temporal,
    hooks: new Hookladder({
      client: temporal,
      secretKeys: { keysFile },
      encryption,
      allowHttp: true,
      allowedNetworks: LOCAL_NETWORKS,
      ...(policy === undefined ? {} : { policy }),
    }),
    keysFile,
    encryptionKeysFile,
    workerLogFile,
    lost: lost.promise,
    stop: () => (stopping ??= stop()),
    kill: () => server.kill(),
  };
}

function uiUrlOf({ uiUrl }: LocalServer): string {
  if (uiUrl === undefined) throw new Error('the Temporal server has no UI');
  return uiUrl;
}

function rejectWhenAborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason as Error);
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  // It may come when nobody waits for it.
  promise.catch(() => undefined);
  return promise;
}
