import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readImageEnvironment, readService, ROOT, type Place } from '../../deploy/topology/compose.ts';
import { BY_IMAGE_WORKERS, BY_OWN_WORKERS, KILLS } from '../../deploy/topology/suite.ts';

const place: Place = {
  ports: { 5432: 21_000, 7233: 21_001, 7243: 21_002, 8000: 21_003, 8234: 21_004, 9464: 21_005, 9465: 21_006 },
  secrets: '/tmp/secrets',
  image: '/tmp/image',
};
const values = {
  POSTGRES_PASSWORD: 'p',
  GRAFANA_PASSWORD: 'g',
  SECRET_KEYS_FILE: '/s',
  ENCRYPTION_KEYS_FILE: '/e',
  HOOKLADDER_ALLOWED_NETWORKS: '127.0.0.0/8',
};

test('the topology takes each service from docker-compose.yml, with addresses and folders of this machine', () => {
  const worker = readService('worker', values, place);
  expect(worker).toMatchObject({ command: ['worker'], replicas: 2 });
  expect(worker.environment).toMatchObject({
    TEMPORAL_ADDRESS: '127.0.0.1:21001',
    TEMPORAL_NAMESPACE: 'default',
    HOOKLADDER_SECRET_KEYS_FILE: '/tmp/secrets/secret-keys',
    HOOKLADDER_ALLOWED_NETWORKS: '127.0.0.0/8',
    HOOKLADDER_HEALTH_ADDRESS: '127.0.0.1:21006',
  });
  expect(worker.healthcheck.join(' ')).toContain('http://127.0.0.1:21006/readyz');
  const temporal = readService('temporal', values, place);
  expect(temporal.environment).toMatchObject({
    DB_PORT: '21000',
    POSTGRES_SEEDS: '127.0.0.1',
    POSTGRES_USER: 'temporal',
    POSTGRES_PWD: 'p',
    BIND_ON_IP: '127.0.0.1',
    DYNAMIC_CONFIG_FILE_PATH: join(ROOT, 'deploy', 'temporal', 'dynamic-config.yaml'),
  });
  const postgresql = readService('postgresql', values, place);
  expect(postgresql.healthcheck).toEqual(['sh', '-c', expect.stringContaining('"$POSTGRES_USER"')]);
  for (const job of ['schema', 'namespace']) {
    const [shell, script = ''] = readService(job, values, place).command;
    expect([shell, existsSync(script)]).toEqual(['sh', true]);
  }
  expect(readImageEnvironment(place)).toMatchObject({
    NODE_ENV: 'production',
    HOOKLADDER_WORKFLOW_BUNDLE: '/tmp/image/workflow-bundle',
  });
  expect(() => readService('worker', {}, place)).toThrow(
    'POSTGRES_PASSWORD is not set: set it in the env file',
  );
  expect(() => readService('none', values, place)).toThrow('no service none');
});

test('the topology builds the version of the server that docker-compose.yml names', async () => {
  const [, version] =
    /temporalio\/server:(\S+)/.exec(await readFile(join(ROOT, 'docker-compose.yml'), 'utf8')) ?? [];
  const goModule = await readFile(join(ROOT, 'deploy', 'topology', 'go.mod'), 'utf8');
  expect(/^\tgo\.temporal\.io\/server (\S+)/m.exec(goModule)?.[1]).toBe(`v${version}`);
});

test('the suite of the topology names files that are there, each once', () => {
  const files = [...BY_IMAGE_WORKERS, ...KILLS, ...BY_OWN_WORKERS];
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
  expect(new Set(files).size).toBe(files.length);
});
