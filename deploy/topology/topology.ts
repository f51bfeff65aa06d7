import { execFile, execFileSync } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { chmod, chown, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { isPortTaken } from '../../src/local/free-port.ts';
import type { RunAs } from '../../src/local/server-process.ts';
import type { Programs } from './programs.ts';
import { readImageEnvironment, readService, ROOT, type Place, type Service } from './compose.ts';
import { supervise, type Supervised } from './supervised.ts';

/** What tests are told of the topology. */
export interface TopologyFacts {
  /** Host and port of the Temporal frontend. */
  readonly address: string;
  readonly codecUrl: string;
  /** The contents of the image. */
  readonly image: string;
  /** The Temporal CLI. */
  readonly cli: string;
  /** Of each process, in a file of its name. */
  readonly pids: string;
  /** For `pg_dump` and `psql`. */
  readonly postgres: { readonly bin: string; readonly env: Readonly<Record<string, string>> };
  /** Whether workers of the image poll, so that tests start none. */
  readonly standingWorkers: boolean;
}

/** What docker-compose.yml describes, as processes on free ports of this machine. */
export interface Topology {
  facts(): TopologyFacts;
  /** In the form of `HOOKLADDER_ENCRYPTION_KEYS`. */
  readonly encryptionKeys: string;
  /** SIGTERM; resolves with how each worker ended. */
  stopWorkers(): Promise<readonly string[]>;
  stop(): Promise<void>;
}

/** The services of compose that run here. */
const SERVICES = ['postgresql', 'schema', 'temporal', 'namespace', 'worker', 'codec-server'] as const;
/** What the server has inside, and compose need not name. */
const INNER_PORTS = ['FRONTEND_MEMBERSHIP', 'MATCHING_GRPC', 'MATCHING_MEMBERSHIP', 'HISTORY_GRPC']
  .concat(['HISTORY_MEMBERSHIP', 'WORKER_GRPC', 'WORKER_MEMBERSHIP'])
  .map((name) => `${name}_PORT`);

/**
 * Starts all in the order of docker-compose.yml, with its environment, its scripts and its health checks.
 * @param secretKeys in the form of `HOOKLADDER_SECRET_KEYS`.
 */
export async function startTopology(
  programs: Programs,
  secretKeys: string,
  log: (line: string) => void,
): Promise<Topology> {
  const folder = await mkdtemp(join(tmpdir(), 'hookladder-topology-'));
  // PostgreSQL runs as another user.
  await chmod(folder, 0o711);
  const encryptionKeys = `test:${randomBytes(32).toString('base64')}`;
  const secrets = await writeSecrets(folder, {
    'secret-keys': secretKeys,
    'encryption-keys': encryptionKeys,
  });
  const place: Place = {
    ports: await freePorts([5432, 7233, 7243, 8000, 8234]),
    secrets,
    image: programs.image,
  };
  const values = await settings(secrets);
  const services = Object.fromEntries(
    SERVICES.map((name) => [name, readService(name, values, place)]),
  ) as Record<(typeof SERVICES)[number], Service>;
  const path = [dirname(process.execPath), programs.postgresBin, process.env['PATH'] ?? ''].join(delimiter);
  const environment = (service: Service, more: Readonly<Record<string, string>> = {}) => ({
    PATH: path,
    ...service.environment,
    ...more,
  });
  const pids = join(folder, 'pids');
  const start = async (
    name: string,
    service: Service,
    command: readonly string[],
    env: Readonly<Record<string, string>>,
    runAs: RunAs = {},
  ): Promise<Supervised> =>
    await supervise({
      ...runAs,
      name,
      command,
      healthcheck: service.healthcheck,
      env,
      pidFile: join(pids, name),
      log,
    });
  const runJob = async (name: 'schema' | 'namespace', more: Readonly<Record<string, string>>) => {
    const [program = '', ...args] = services[name].command;
    const done = await promisify(execFile)(program, args, { env: environment(services[name], more) });
    for (const line of (done.stdout + done.stderr).trim().split('\n')) log(`${name}: ${line}`);
  };

  const postgresPort = String(place.ports[5432]);
  const postgres = await makeCluster(folder, programs.postgresBin, services.postgresql);
  const running: Supervised[] = [];
  const stop = async (): Promise<void> => {
    for (const each of running.splice(0).toReversed()) await each.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    running.push(
      await start(
        'postgresql',
        services.postgresql,
        [join(programs.postgresBin, 'postgres'), '-D', postgres.data, '-p', postgresPort].concat([
          '-k',
          postgres.home,
          '-c',
          'listen_addresses=127.0.0.1',
        ]),
        environment(services.postgresql, { PGPORT: postgresPort }),
        postgres.runAs,
      ),
    );
    await runJob('schema', { POSTGRES_PORT: postgresPort, TEMPORAL_SQL_TOOL: programs.sqlTool });
    const inner = await Promise.all(
      INNER_PORTS.map(async (name) => [name, String(await freePort())] as const),
    );
    running.push(
      await start('temporal', services.temporal, [programs.server, 'start'], {
        ...environment(services.temporal, Object.fromEntries(inner)),
        FRONTEND_GRPC_PORT: String(place.ports[7233]),
        FRONTEND_HTTP_PORT: String(place.ports[7243]),
      }),
    );
    await runJob('namespace', { TEMPORAL_CLI: programs.cli });

    const main = [process.execPath, join(programs.image, 'dist', 'cli', 'main.js')];
    const ofImage = readImageEnvironment(place);
    const workers: Supervised[] = [];
    for (let nth = 1; nth <= services.worker.replicas; nth++) {
      // Each container has all ports to itself.
      const own: Place = { ...place, ports: await freePorts([9464, 9465]) };
      const service = readService('worker', values, { ...own, ports: { ...place.ports, ...own.ports } });
      const env = { ...readImageEnvironment(own), ...environment(service) };
      workers.push(await start(`worker-${nth}`, service, [...main, ...service.command], env));
    }
    running.push({
      stop: async () => (await Promise.all(workers.splice(0).map(async (each) => await each.stop()))).join(),
    });
    const codec = services['codec-server'];
    running.push(
      await start('codec-server', codec, [...main, ...codec.command], { ...ofImage, ...environment(codec) }),
    );
    return {
      facts: () => ({
        address: `127.0.0.1:${place.ports[7233]}`,
        codecUrl: `http://127.0.0.1:${place.ports[8234]}`,
        image: programs.image,
        cli: programs.cli,
        pids,
        postgres: {
          bin: programs.postgresBin,
          env: {
            PGHOST: '127.0.0.1',
            PGPORT: postgresPort,
            PGUSER: values['POSTGRES_USER'] ?? '',
            PGPASSWORD: values['POSTGRES_PASSWORD'] ?? '',
          },
        },
        standingWorkers: workers.length > 0,
      }),
      encryptionKeys,
      stopWorkers: async () => await Promise.all(workers.splice(0).map(async (each) => await each.stop())),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** What deploy/example.env says, with its blanks filled, and what receivers on this machine need. */
async function settings(secrets: string): Promise<Readonly<Record<string, string>>> {
  const example = await readFile(join(ROOT, 'deploy', 'example.env'), 'utf8');
  const lines = [...example.matchAll(/^(\w+)=(.*)$/gm)].map(
    ([, name = '', value = '']) => [name, value] as const,
  );
  return {
    ...Object.fromEntries(lines),
    POSTGRES_PASSWORD: randomBytes(16).toString('hex'),
    GRAFANA_PASSWORD: 'not used',
    SECRET_KEYS_FILE: join(secrets, 'secret-keys'),
    ENCRYPTION_KEYS_FILE: join(secrets, 'encryption-keys'),
    HOOKLADDER_ALLOWED_NETWORKS: '127.0.0.0/8',
  };
}

async function writeSecrets(folder: string, files: Readonly<Record<string, string>>): Promise<string> {
  const secrets = join(folder, 'secrets');
  await mkdir(secrets, { mode: 0o700 });
  for (const [name, text] of Object.entries(files))
    await writeFile(join(secrets, name), `${text}\n`, { mode: 0o600 });
  return secrets;
}

async function freePorts(names: readonly number[]): Promise<Record<number, number>> {
  const ports = names.map(async (name) => [name, await freePort()] as const);
  return Object.fromEntries(await Promise.all(ports));
}

/**
 * A port that nobody listens on. Temporal's schema keeps ports as signed 16-bit integers; and below this bound Linux gives
 * none away, so that a process that was killed finds its port again.
 */
async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_768);
    if (!(await isPortTaken('127.0.0.1', port))) return port;
  }
}

/** As the image of PostgreSQL makes it at its first start. PostgreSQL refuses to run as root. */
async function makeCluster(folder: string, bin: string, { environment }: Service) {
  const home = join(folder, 'postgresql');
  const data = join(home, 'data');
  const passwordFile = join(home, 'password');
  await mkdir(data, { recursive: true, mode: 0o700 });
  await writeFile(passwordFile, environment['POSTGRES_PASSWORD'] ?? '', { mode: 0o600 });
  const owner = process.getuid?.() === 0 ? nobody() : undefined;
  if (owner !== undefined) {
    for (const path of [home, data, passwordFile]) await chown(path, owner.uid, owner.gid);
  }
  const user = environment['POSTGRES_USER'] ?? '';
  const options = ['--pgdata', data, '--username', user, '--pwfile', passwordFile];
  const more = ['--encoding=UTF8', '--locale=C.UTF-8'].concat(
    (environment['POSTGRES_INITDB_ARGS'] ?? '').split(' '),
  );
  await promisify(execFile)(join(bin, 'initdb'), [...options, ...more], { ...owner, cwd: home });
  await rm(passwordFile);
  return { home, data, runAs: owner ?? {} };
}

function nobody(): { readonly uid: number; readonly gid: number } {
  return { uid: numberOf('-u'), gid: numberOf('-g') };
}

function numberOf(option: '-u' | '-g'): number {
  return Number(execFileSync('id', [option, 'nobody'], { encoding: 'utf8' }));
}
