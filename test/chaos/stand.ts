import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { bundleFile, bundleName } from '../../src/bundle-file.ts';
import { dataConverterOf, Hookladder } from '../../src/client.ts';
import { SEARCH_ATTRIBUTES } from '../../src/contract.ts';
import { reserveFreePort } from '../../src/local/free-port.ts';
import { startLocalServer, type LocalServer } from '../../src/local/server.ts';
import { patientRetry } from '../../src/patient-retry.ts';
import { bundleWorkflows } from '../../src/workers.ts';
import { spawnWorker, type WorkerProcess } from '../support/spawn-worker.ts';
import { startBreakableProxy, type BreakableProxy } from './breakable-proxy.ts';
import { POLICY } from './settings.ts';

const WORKERS = 2;
const LOOPBACK = '127.0.0.0/8';
/** A call that Temporal does not answer by then is made again by the load. */
const CALL_LIMIT_MS = 10_000;

/** A server with a store, a proxy before it, and workers as processes of their own, all to be killed. */
export class ChaosStand {
  readonly hooks: Hookladder;
  /** Decodes what is stored. */
  readonly temporal: Client;
  readonly proxy: BreakableProxy;
  /** Last lines of workers that ended by themselves. */
  readonly crashes: string[] = [];
  private readonly workers: (WorkerProcess | undefined)[] = [];
  private readonly environment: Record<string, string>;
  private readonly startServerAgain: () => Promise<LocalServer>;
  private readonly cleanUp: (() => Promise<unknown>)[];
  private server: LocalServer;

  private constructor(parts: {
    readonly server: LocalServer;
    readonly startServer: () => Promise<LocalServer>;
    readonly proxy: BreakableProxy;
    readonly connection: Connection;
    /** Of workflow code that was bundled beforehand. */
    readonly bundle: string;
    readonly cleanUp: (() => Promise<unknown>)[];
  }) {
    const encryption = { keys: freshKey() };
    const secretKeys = { keys: freshKey() };
    this.server = parts.server;
    this.startServerAgain = parts.startServer;
    this.proxy = parts.proxy;
    this.cleanUp = parts.cleanUp;
    this.temporal = new Client({
      connection: parts.connection,
      dataConverter: dataConverterOf(encryption),
    });
    this.hooks = new Hookladder({
      client: this.temporal,
      encryption,
      secretKeys,
      connectTimeoutMs: CALL_LIMIT_MS,
      allowHttp: true,
      allowedNetworks: [LOOPBACK],
      policy: POLICY,
    });
    this.environment = {
      TEMPORAL_ADDRESS: parts.proxy.address,
      HOOKLADDER_ALLOWED_NETWORKS: LOOPBACK,
      HOOKLADDER_ENCRYPTION_KEYS: encryption.keys,
      HOOKLADDER_SECRET_KEYS: secretKeys.keys,
      HOOKLADDER_WORKFLOW_BUNDLE: parts.bundle,
    };
  }

  static async start(binary: string): Promise<ChaosStand> {
    const cleanUp: (() => Promise<unknown>)[] = [];
    const folder = await mkdtemp(join(tmpdir(), 'hookladder-chaos-'));
    cleanUp.push(() => rm(folder, { recursive: true }));
    const bundle = await bundleWorkflows();
    if ('code' in bundle) await writeFile(join(folder, bundleName(false)), bundleFile(bundle.code));
    const port = await reserveFreePort('127.0.0.1');
    const startServer = async (): Promise<LocalServer> =>
      await startLocalServer({
        binary,
        headless: true,
        port,
        dbFile: join(folder, 'temporal.db'),
        // Processes are killed here, no machine is: a disk that is slow would be all that is measured.
        syncsToDisk: false,
        searchAttributes: SEARCH_ATTRIBUTES,
        dynamicConfig: { 'matching.enableFairness': true, 'history.timerProcessorMaxTimeShift': '10ms' },
      });
    const server = await startServer();
    const proxy = await startBreakableProxy(port);
    const connection = await Connection.connect({ address: proxy.address, interceptors: [patientRetry()] });
    cleanUp.push(async () => {
      await connection.close();
      await proxy.close();
    });
    const stand = new ChaosStand({ server, startServer, proxy, connection, bundle: folder, cleanUp });
    await stand.startWorkers();
    return stand;
  }

  /** SIGKILL to one worker, then another in its place. */
  async killWorker(nth: number, awayMs: () => Promise<unknown>): Promise<void> {
    await this.killNth(nth % WORKERS);
    await awayMs();
    await this.startWorkers();
  }

  /** SIGKILL to all workers. */
  async killWorkers(): Promise<void> {
    await Promise.all(this.workers.map((_, nth) => this.killNth(nth)));
  }

  /** SIGKILL to the server; its store stays. */
  async killServer(): Promise<void> {
    this.server.kill();
    await this.server.stop();
  }

  async startServer(): Promise<void> {
    this.server = await this.startServerAgain();
  }

  /** Starts what is not running. */
  async startWorkers(): Promise<void> {
    await Promise.all(
      Array.from({ length: WORKERS }, async (_, nth) => {
        this.workers[nth] ??= await this.startWorker(nth);
      }),
    );
  }

  async stop(): Promise<void> {
    await this.killWorkers();
    await this.server.stop();
    for (const each of this.cleanUp.toReversed()) await each();
  }

  private async startWorker(nth: number): Promise<WorkerProcess> {
    const worker = await spawnWorker(this.environment);
    void worker.exited.then(() => {
      if (this.workers[nth] !== worker) return;
      this.crashes.push(worker.lines.slice(-5).join('\n'));
      this.workers[nth] = undefined;
    });
    return worker;
  }

  private async killNth(nth: number): Promise<void> {
    const worker = this.workers[nth];
    this.workers[nth] = undefined;
    await worker?.kill();
  }
}

function freshKey(): string {
  return `chaos:${randomBytes(32).toString('base64')}`;
}
