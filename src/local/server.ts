import type { ChildProcess } from 'node:child_process';
import { resolve } from 'node:path';
import { isPortTaken, reserveFreePort } from './free-port.ts';
import {
  LocalSearchAttributeConflict,
  LocalServerExited,
  LocalServerPortTaken,
  LocalServerStartTimeout,
} from './server-errors.ts';
import { startServerProcess, type ServerProcess } from './server-process.ts';
import { awaitUsable, type LocalSearchAttributeType } from './server-ready.ts';
import { lockState, type StateLock } from './state-lock.ts';

const HOST = '127.0.0.1';
/** Chosen ports are free when they are chosen; somebody else may still take one before the server does. */
const CHOSEN_PORT_TRIES = 3;

export interface LocalServerOptions {
  /** Path of the Temporal CLI, as `findTemporalBinary` gives it. */
  readonly binary: string;
  /** Name and type of every attribute that workflows will use; an attribute that kept state lacks is added. */
  readonly searchAttributes: Readonly<Record<string, LocalSearchAttributeType>>;
  /** Port of the frontend. Default: a free one. */
  readonly port?: number;
  /** Port of the web UI. Default: a free one. */
  readonly uiPort?: number;
  /** Where the web UI has payloads decoded. Default: nowhere. */
  readonly uiCodecEndpoint?: string;
  /** Leaves the web UI out. Default: false. */
  readonly headless?: boolean;
  /** Keeps the state in this SQLite file, whose folder is created. Default: in memory, lost at the end. */
  readonly dbFile?: string;
  /**
   * Whether each change waits until the disk has it. Without, a server that is killed loses nothing, but a machine that goes
   * down may. Default: true.
   */
  readonly syncsToDisk?: boolean;
  /** Default: `default`. */
  readonly namespace?: string;
  /**
   * Days that closed workflows are kept. Default: 30. After the very first start the server goes by its own one day for
   * about 2 s, until it reads the namespace again.
   */
  readonly retentionDays?: number;
  /** Dynamic config, by key. Default: none. */
  readonly dynamicConfig?: Readonly<Record<string, string | number | boolean>>;
  /** Default: `error`. */
  readonly logLevel?: 'debug' | 'info' | 'warn' | 'error' | 'never';
  /** Gets every line that the server writes. Default: nobody. */
  readonly onOutput?: (line: string) => void;
  /** Told when a server that was left behind has to be stopped first. Default: nobody. */
  readonly log?: (line: string) => void;
  /** Milliseconds until the server must be usable. Default: 60,000. */
  readonly startTimeoutMs?: number;
  /** Milliseconds between SIGTERM and SIGKILL in `stop`. Default: 10,000. */
  readonly stopTimeoutMs?: number;
}

export interface LocalServer {
  /** Host and port of the frontend. */
  readonly address: string;
  /** Missing when headless. */
  readonly uiUrl?: string;
  readonly namespace: string;
  readonly process: ChildProcess;
  /** Ends the server in an orderly way and resolves when it is gone; may be called again. */
  stop(): Promise<void>;
  /** Ends the server at once, without waiting. */
  kill(): void;
}

/**
 * Starts a Temporal dev server on 127.0.0.1 and resolves when workflows can be started with the search attributes. The
 * server ends with this process at the latest, however that ends; a Ctrl-C in the terminal does not reach it.
 * @throws LocalServerPortTaken if a port that was asked for is taken.
 * @throws LocalServerStateInUse if another server keeps its state in `dbFile`.
 * @throws LocalSearchAttributeConflict if `dbFile` has an attribute by another type.
 * @throws LocalServerExited if the server ends before it is usable, with its last output.
 * @throws LocalServerStartTimeout if it is not usable within `startTimeoutMs`.
 */
export async function startLocalServer(options: LocalServerOptions): Promise<LocalServer> {
  for (let tries = 1; ; tries++) {
    const port = options.port ?? (await reserveFreePort(HOST));
    const uiPort = options.headless === true ? undefined : (options.uiPort ?? (await reserveFreePort(HOST)));
    try {
      return await startOnPorts(options, port, uiPort);
    } catch (error) {
      const asked = [options.port, options.uiPort];
      const canChooseAgain = error instanceof LocalServerPortTaken && !asked.includes(error.port);
      if (!canChooseAgain || tries === CHOSEN_PORT_TRIES) throw error;
    }
  }
}

async function startOnPorts(
  options: LocalServerOptions,
  port: number,
  uiPort: number | undefined,
): Promise<LocalServer> {
  // Asked before the start: whatever else listens there would answer for a server that is about to fail.
  await mustBeFree(port, 'frontend');
  if (uiPort !== undefined) await mustBeFree(uiPort, 'web UI');

  const { namespace = 'default', stopTimeoutMs = 10_000, log = () => undefined } = options;
  const dbFile = options.dbFile === undefined ? undefined : resolve(options.dbFile);
  const lock = dbFile === undefined ? undefined : await lockState(dbFile, log);
  const address = `${HOST}:${port}`;
  const server = startServerProcess(
    options.binary,
    commandLine(options, { port, uiPort, namespace, dbFile }),
    options.onOutput ?? (() => undefined),
  );
  const released = releaseAtEnd(server, lock);
  const stop = async (): Promise<void> => {
    await server.stop(stopTimeoutMs);
    await released;
  };
  try {
    await lock?.note(server.child.pid, address);
    await awaitStart(server, options, { port, uiPort, namespace });
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    address,
    ...(uiPort !== undefined && { uiUrl: `http://${HOST}:${uiPort}` }),
    namespace,
    process: server.child,
    stop,
    kill: () => server.kill(),
  };
}

async function mustBeFree(port: number, use: string): Promise<void> {
  if (await isPortTaken(HOST, port)) throw new LocalServerPortTaken(port, use);
}

async function releaseAtEnd(server: ServerProcess, lock: StateLock | undefined): Promise<void> {
  await server.ended;
  await lock?.release();
}

interface Place {
  readonly port: number;
  readonly uiPort: number | undefined;
  readonly namespace: string;
}

function commandLine(
  {
    searchAttributes,
    uiCodecEndpoint,
    dynamicConfig = {},
    syncsToDisk = true,
    logLevel = 'error',
  }: LocalServerOptions,
  { port, uiPort, namespace, dbFile }: Place & { readonly dbFile: string | undefined },
): string[] {
  const args = ['server', 'start-dev', '--ip', HOST, '--port', String(port), '--log-level', logLevel];
  args.push(...(uiPort === undefined ? ['--headless'] : ['--ui-port', String(uiPort)]));
  if (uiCodecEndpoint !== undefined) args.push('--ui-codec-endpoint', uiCodecEndpoint);
  args.push('--namespace', namespace);
  if (dbFile !== undefined) args.push('--db-filename', dbFile);
  if (!syncsToDisk) args.push('--sqlite-pragma', 'synchronous=0');
  for (const [name, type] of Object.entries(searchAttributes)) {
    args.push('--search-attribute', `${name}=${type}`);
  }
  for (const [key, value] of Object.entries(dynamicConfig)) {
    args.push('--dynamic-config-value', `${key}=${JSON.stringify(value)}`);
  }
  return args;
}

async function awaitStart(
  server: ServerProcess,
  { searchAttributes, retentionDays = 30, startTimeoutMs = 60_000 }: LocalServerOptions,
  place: Place,
): Promise<void> {
  const waiting = new AbortController();
  const timer = setTimeout(() => waiting.abort(), startTimeoutMs);
  void server.ended.then(() => waiting.abort());
  try {
    await awaitUsable({ ...place, host: HOST, searchAttributes, retentionDays, signal: waiting.signal });
  } catch (error) {
    if (error instanceof LocalSearchAttributeConflict) throw error;
    if (server.hasEnded()) throw whyItEnded(await server.ended, server.outputTail(), place);
    throw new LocalServerStartTimeout(startTimeoutMs, server.outputTail(), error);
  } finally {
    clearTimeout(timer);
  }
  // It was another server that answered, if this one is gone.
  if (server.hasEnded()) throw whyItEnded(await server.ended, server.outputTail(), place);
}

function whyItEnded(how: string, outputTail: string, { uiPort }: Place): Error {
  const taken = Number(/:(\d+): bind: address already in use/.exec(outputTail)?.[1]);
  if (Number.isNaN(taken)) return new LocalServerExited(how, outputTail);
  return new LocalServerPortTaken(taken, taken === uiPort ? 'web UI' : 'frontend');
}
