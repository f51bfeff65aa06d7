import { X509Certificate } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bundleFile, bundleName } from '../../src/bundle-file.ts';
import { ConfigurationError } from '../../src/configuration-error.ts';
import { readConfiguration } from '../../src/configuration.ts';
import { newKey } from '../../src/key-list.ts';
import { createAuthority } from '../support/certificates.ts';

const keys = newKey('k1');
// A file that says nothing keeps a developer's own Temporal profile out of the tests.
let folder: string;
let nothing: NodeJS.ProcessEnv;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hookladder-'));
  const file = join(folder, 'temporal.toml');
  await writeFile(file, '[profile.default]\n');
  nothing = { TEMPORAL_CONFIG_FILE: file, HOOKLADDER_ENCRYPTION: 'off' };
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

describe('the environment of a worker', () => {
  test('has a default for everything but the secret keys and encryption', async () => {
    expect(await readConfiguration({ ...nothing, HOOKLADDER_SECRET_KEYS: keys })).toEqual({
      connection: { address: 'localhost:7233' },
      namespace: 'default',
      secretKeys: { keys },
      encryption: 'off',
      maxConcurrentAttempts: 100,
      allowedNetworks: [],
      trustedCertificates: [],
      shutdownGraceMs: 30_000,
      maxCachedWorkflows: 500,
      acceptShortRetention: false,
      logLevel: 'info',
    });
  });

  test('has traces where the environment says where they go, and refuses what cannot be meant', async () => {
    const environment = { ...nothing, HOOKLADDER_SECRET_KEYS: keys };
    const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
    expect(await readConfiguration({ ...environment, ...collector })).toMatchObject({
      traces: { sendTraceparent: false },
    });
    const passedOn = { HOOKLADDER_SEND_TRACEPARENT: 'true' };
    expect(await readConfiguration({ ...environment, ...collector, ...passedOn })).toMatchObject({
      traces: { sendTraceparent: true },
    });
    for (const off of [{ OTEL_SDK_DISABLED: 'true' }, { OTEL_TRACES_EXPORTER: 'none' }]) {
      expect(await readConfiguration({ ...environment, ...collector, ...off })).not.toHaveProperty('traces');
    }
    await expect(readConfiguration({ ...environment, ...passedOn })).rejects.toThrow(
      'HOOKLADDER_SEND_TRACEPARENT needs traces',
    );
    await expect(
      readConfiguration({ ...environment, OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }),
    ).rejects.toThrow('OTEL_EXPORTER_OTLP_ENDPOINT must be the http:// or https:// address');
    await expect(
      readConfiguration({ ...environment, ...collector, HOOKLADDER_SEND_TRACEPARENT: 'yes' }),
    ).rejects.toThrow('HOOKLADDER_SEND_TRACEPARENT must be true or false');
  });

  test('is read by the names that all Temporal tools know', async () => {
    const environment = {
      ...nothing,
      HOOKLADDER_SECRET_KEYS: keys,
      TEMPORAL_ADDRESS: 'temporal:7233',
      TEMPORAL_NAMESPACE: 'payments',
    };
    expect(await readConfiguration(environment)).toMatchObject({
      connection: { address: 'temporal:7233' },
      namespace: 'payments',
    });
  });

  test('is one version of several only where it is told so', async () => {
    const ours = { ...nothing, HOOKLADDER_SECRET_KEYS: keys, HOOKLADDER_ENCRYPTION: 'off' };
    const named = { ...ours, HOOKLADDER_DEPLOYMENT_NAME: 'hookladder' };
    expect(await readConfiguration(named)).toMatchObject({ versioning: { deploymentName: 'hookladder' } });
    expect(await readConfiguration({ ...named, HOOKLADDER_BUILD_ID: '0.2.0-rc.1' })).toMatchObject({
      versioning: { deploymentName: 'hookladder', buildId: '0.2.0-rc.1' },
    });
    await expect(readConfiguration({ ...ours, HOOKLADDER_BUILD_ID: '0.2.0' })).rejects.toThrow(
      'HOOKLADDER_BUILD_ID needs HOOKLADDER_DEPLOYMENT_NAME',
    );
    // Temporal writes a version as name and build id with a dot or a colon between.
    await expect(readConfiguration({ ...ours, HOOKLADDER_DEPLOYMENT_NAME: 'hook.ladder' })).rejects.toThrow(
      'HOOKLADDER_DEPLOYMENT_NAME must be 1 to 63 of A-Z a-z 0-9 _ -',
    );
  });

  test('takes a workflow bundle of this version only', async () => {
    const environment = {
      ...nothing,
      HOOKLADDER_SECRET_KEYS: keys,
      HOOKLADDER_ENCRYPTION: 'off',
      HOOKLADDER_WORKFLOW_BUNDLE: folder,
    };
    await writeFile(join(folder, bundleName(false)), bundleFile('code'));
    expect(await readConfiguration(environment)).toMatchObject({
      workflowBundle: { codePath: join(folder, 'workflows.js') },
    });
    await writeFile(join(folder, bundleName(false)), '// hookladder 0.0.1\ncode');
    await expect(readConfiguration(environment)).rejects.toThrow(/was made by 0\.0\.1, not .*: make it anew/);
  });

  test('R3 R72 allows networks that are not public by their CIDRs', async () => {
    expect(
      await readConfiguration({
        ...nothing,
        HOOKLADDER_SECRET_KEYS: keys,
        HOOKLADDER_ALLOWED_NETWORKS: '10.1.0.0/16, fd00:1::/64,',
      }),
    ).toMatchObject({ allowedNetworks: ['10.1.0.0/16', 'fd00:1::/64'] });
  });

  test('brings certificates and an egress proxy', async () => {
    const [one, two] = [createAuthority('one').pem, createAuthority('two').pem];
    const file = join(folder, 'ca.pem');
    await writeFile(file, `# ours\n${one}${two}`);
    const environment = {
      ...nothing,
      HOOKLADDER_SECRET_KEYS: keys,
      HOOKLADDER_CA_FILE: file,
      HOOKLADDER_EGRESS_PROXY: 'https://ann:p%40ss@proxy.internal:3128',
    };
    expect(await readConfiguration(environment)).toMatchObject({
      trustedCertificates: [one, two].map((pem) => new X509Certificate(pem).toString()),
      egressProxy: new URL('https://ann:p%40ss@proxy.internal:3128'),
    });
  });

  test('serves metrics where it is told to, and by merchant only if it is told so', async () => {
    const read = async (more: Record<string, string>) =>
      await readConfiguration({ ...nothing, HOOKLADDER_SECRET_KEYS: keys, ...more });
    expect(await read({ HOOKLADDER_METRICS_ADDRESS: '127.0.0.1:9464' })).toMatchObject({
      metricsAddress: { host: '127.0.0.1', port: 9464 },
      metrics: { byMerchant: false },
    });
    expect(
      await read({ HOOKLADDER_METRICS_ADDRESS: '[::]:9464', HOOKLADDER_METRICS_BY_MERCHANT: 'true' }),
    ).toMatchObject({ metricsAddress: { host: '::', port: 9464 }, metrics: { byMerchant: true } });
  });

  test('sends notices to operators only where it is told to', async () => {
    const ours = { ...nothing, HOOKLADDER_SECRET_KEYS: keys, HOOKLADDER_NOTICE_HELD_MINUTES: '30' };
    expect(await readConfiguration(ours)).not.toHaveProperty('notices');
    expect(await readConfiguration({ ...ours, HOOKLADDER_NOTICES: 'operator' })).toMatchObject({
      notices: { hook: 'operator', heldAfterMs: 1_800_000 },
    });
    const [HOOKLADDER_NOTICES, none] = [join(folder, 'hook.mjs'), join(folder, 'none.mjs')];
    await writeFile(HOOKLADDER_NOTICES, 'export function notice() {}');
    await writeFile(none, 'export const other = 1;');
    expect(await readConfiguration({ ...ours, HOOKLADDER_NOTICES })).toMatchObject({
      notices: { hook: expect.any(Function) },
    });
    await expect(readConfiguration({ ...ours, HOOKLADDER_NOTICES: none })).rejects.toThrow(
      /HOOKLADDER_NOTICES must be .*none\.mjs: there is no such function/,
    );
  });

  test('never repeats the address of a proxy, which may have a password', async () => {
    const HOOKLADDER_EGRESS_PROXY = 'http://ann:s3cret@proxy/path';
    const refused = readConfiguration({ ...nothing, HOOKLADDER_SECRET_KEYS: keys, HOOKLADDER_EGRESS_PROXY });
    await expect(refused).rejects.not.toThrow(/s3cret/);
  });

  test.each([
    ['HOOKLADDER_ALLOWED_NETWORKS', '10.1.0.0', '"10.1.0.0" is not a CIDR: write it like'],
    ['HOOKLADDER_ALLOWED_NETWORKS', '::1/128,10.1.2.3/8', 'write 10.0.0.0/8'],
    ['HOOKLADDER_CA_FILE', '/no/such/file', 'ENOENT'],
    ['HOOKLADDER_CA_FILE', '/etc/hosts', 'has no certificates'],
    ['HOOKLADDER_EGRESS_PROXY', 'proxy:3128', 'must be a URL such as'],
    ['HOOKLADDER_EGRESS_PROXY', 'socks5://proxy:1080', 'must be a URL such as'],
    ['HOOKLADDER_EGRESS_PROXY', 'http://proxy:3128/path', 'must not have a path'],
    ['HOOKLADDER_EGRESS_PROXY', 'http://user:100%@proxy', 'not percent-encoded'],
    ['HOOKLADDER_MAX_CONCURRENT_ATTEMPTS', 'many', 'whole number'],
    ['HOOKLADDER_MAX_CONCURRENT_ATTEMPTS', '0', 'at least 1'],
    ['HOOKLADDER_MAX_CONCURRENT_ATTEMPTS', '1e3', 'whole number'],
    ['HOOKLADDER_MAX_CACHED_WORKFLOWS', '5', 'at least 10'],
    ['HOOKLADDER_SHORT_RETENTION', 'yes', 'refuse or accept'],
    ['HOOKLADDER_HEALTH_ADDRESS', '9465', 'such as 127.0.0.1:9465'],
    ['HOOKLADDER_WORKFLOW_BUNDLE', '/no/such/folder', 'ENOENT'],
    ['HOOKLADDER_SHUTDOWN_GRACE_SECONDS', '-1', 'whole number'],
    ['HOOKLADDER_SHUTDOWN_GRACE_SECONDS', '99999', 'at most 3600'],
    ['HOOKLADDER_LOG_LEVEL', 'loud', 'one of trace'],
    ['HOOKLADDER_METRICS_ADDRESS', '9464', 'an IP address and a port'],
    ['HOOKLADDER_METRICS_ADDRESS', 'localhost:9464', 'an IP address and a port'],
    ['HOOKLADDER_METRICS_ADDRESS', '::1:9464', 'an IP address and a port'],
    ['HOOKLADDER_METRICS_ADDRESS', '127.0.0.1:70000', 'an IP address and a port'],
    ['HOOKLADDER_METRICS_BY_MERCHANT', 'on', 'true or false'],
    ['HOOKLADDER_NOTICES', './no/such/hook.mjs', 'must be "operator" or the path of a module'],
    ['HOOKLADDER_NOTICE_HELD_MINUTES', '0', 'at least 1'],
    ['HOOKLADDER_CONCURRENCY', '5', 'is not known'],
  ])('%s=%s is refused: %s', async (name, value, remedy) => {
    const refusal = await readConfiguration({
      ...nothing,
      HOOKLADDER_SECRET_KEYS: keys,
      [name]: value,
    }).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(ConfigurationError);
    expect(refusal).toMatchObject({
      code: 'CONFIGURATION',
      message: expect.stringMatching(new RegExp(`${name}.*${remedy}`)),
    });
  });

  test('names every variable that is wrong at once, and prints no key', async () => {
    const refusal: unknown = await readConfiguration({
      ...nothing,
      HOOKLADDER_SECRET_KEYS: 'k1:c2hvcnQ=',
      HOOKLADDER_LOG_LEVEL: 'loud',
      HOOKLADDER_X: '1',
    }).catch((error: unknown) => error);
    const text = String(refusal);
    for (const name of ['HOOKLADDER_SECRET_KEYS', 'HOOKLADDER_LOG_LEVEL', 'HOOKLADDER_X'])
      expect(text).toContain(name);
    expect(text).not.toContain('c2hvcnQ');
  });

  test.each([
    ['neither', {}],
    ['both', { HOOKLADDER_SECRET_KEYS: keys, HOOKLADDER_SECRET_KEYS_FILE: '/dev/null' }],
  ])('with %s source of keys is refused', async (_, sources) => {
    await expect(readConfiguration({ ...nothing, ...sources })).rejects.toThrow(
      /HOOKLADDER_SECRET_KEYS_FILE or HOOKLADDER_SECRET_KEYS/,
    );
  });

  test('with a file of keys that cannot be read names the variable and the file', async () => {
    await expect(
      readConfiguration({ ...nothing, HOOKLADDER_SECRET_KEYS_FILE: '/nowhere/keys' }),
    ).rejects.toThrow(/HOOKLADDER_SECRET_KEYS_FILE: .*ENOENT.*\/nowhere\/keys/);
  });
});

describe('encryption', () => {
  const [first, second] = [newKey('e1'), newKey('e2')];
  const configured = async (environment: NodeJS.ProcessEnv) =>
    await readConfiguration({
      ...nothing,
      HOOKLADDER_SECRET_KEYS: keys,
      HOOKLADDER_ENCRYPTION: '',
      ...environment,
    });

  test('takes its keys from a variable, a file or a module', async () => {
    const [keysFile, keysModule] = [join(folder, 'encryption-keys'), join(folder, 'kms.mjs')];
    await writeFile(keysFile, `${first}\n${second}\n`);
    await writeFile(
      keysModule,
      `import { createSecretKey } from 'node:crypto';
       const key = { id: 'kms', key: createSecretKey(Buffer.alloc(32, 1)) };
       export default async () => ({ newest: async () => key, find: (id) => (id === 'kms' ? key : undefined) });`,
    );
    expect(await configured({ HOOKLADDER_ENCRYPTION_KEYS: first })).toMatchObject({
      encryption: { keys: first },
    });
    expect(await configured({ HOOKLADDER_ENCRYPTION_KEYS_FILE: keysFile })).toMatchObject({
      encryption: { keysFile },
    });
    expect(await configured({ HOOKLADDER_ENCRYPTION_KEYS_MODULE: keysModule })).toMatchObject({
      encryption: { keysModule },
    });
  });

  test('off with keys reads what was encrypted', async () => {
    const environment = { HOOKLADDER_ENCRYPTION: 'off', HOOKLADDER_ENCRYPTION_KEYS: first };
    expect(await configured(environment)).toMatchObject({ encryption: { decryptOnly: { keys: first } } });
  });

  test.each<[what: string, environment: NodeJS.ProcessEnv, says: RegExp]>([
    ['nothing', {}, /no key to encrypt payloads with: .*hookladder keys new.*HOOKLADDER_ENCRYPTION=off/],
    ['on without keys', { HOOKLADDER_ENCRYPTION: 'on' }, /no key to encrypt payloads with/],
    [
      'another word',
      { HOOKLADDER_ENCRYPTION: 'none' },
      /HOOKLADDER_ENCRYPTION must be on or off, not "none"/,
    ],
    [
      'two sources',
      { HOOKLADDER_ENCRYPTION_KEYS: first, HOOKLADDER_ENCRYPTION_KEYS_FILE: '/x' },
      /HOOKLADDER_ENCRYPTION_KEYS_FILE and HOOKLADDER_ENCRYPTION_KEYS are both set/,
    ],
    [
      'a short key',
      { HOOKLADDER_ENCRYPTION_KEYS: 'k1:c2hvcnQ=' },
      /_KEYS: encryption key 1 must be id:base64/,
    ],
    ['an id twice', { HOOKLADDER_ENCRYPTION_KEYS: `${first},${first}` }, /_KEYS: .*"e1" is there twice/],
    ['no file', { HOOKLADDER_ENCRYPTION_KEYS_FILE: '/no/keys' }, /_KEYS_FILE: .*ENOENT.*\/no\/keys/],
    ['no module', { HOOKLADDER_ENCRYPTION_KEYS_MODULE: '/no/kms.mjs' }, /_KEYS_MODULE: .*\/no\/kms\.mjs/],
  ])('%s is refused, and no key is printed', async (_, environment, says) => {
    const refusal = await configured(environment).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(ConfigurationError);
    expect(String(refusal)).toMatch(says);
    expect(String(refusal)).not.toContain(first.slice(3));
    expect(String(refusal)).not.toContain('c2hvcnQ');
  });
});
