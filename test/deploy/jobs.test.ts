import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { checkRetention } from '../../src/retention.ts';
import { checkSearchAttributes } from '../../src/search-attributes.ts';
import { temporalAddress } from '../support/stack.ts';

const script = join(import.meta.dirname, '..', '..', 'deploy', 'temporal', 'namespace.sh');
let connection: Connection;

beforeAll(async () => {
  connection = await Connection.connect({ address: temporalAddress() });
});
afterAll(async () => {
  await connection.close();
});

async function prepare(namespace: string, environment: Record<string, string> = {}): Promise<string> {
  const env = {
    PATH: process.env['PATH'],
    TEMPORAL_CLI: inject('temporalBinary'),
    TEMPORAL_ADDRESS: temporalAddress(),
    TEMPORAL_NAMESPACE: namespace,
    WAIT_SECONDS: '60',
    ...environment,
  };
  const { stdout } = await promisify(execFile)('sh', [script], { env });
  return stdout;
}

async function retentionDays(namespace: string): Promise<number> {
  const { config } = await connection.workflowService.describeNamespace({ namespace });
  return Number(config?.workflowExecutionRetentionTtl?.seconds) / 86_400;
}

test('the namespace job makes a namespace that workers take, and may run again', async () => {
  const namespace = `job-${randomUUID()}`;
  const client = new Client({ connection, namespace });
  expect(await prepare(namespace)).toContain(`namespace ${namespace} is ready`);
  await checkSearchAttributes(client);
  expect(await checkRetention(client, false)).toBeUndefined();
  expect(await prepare(namespace)).toContain('is ready');

  expect(await prepare(namespace, { RETENTION_HOURS: '2160' })).toContain('is ready');
  expect(await retentionDays(namespace)).toBe(90);
  await prepare(namespace);
  expect(await retentionDays(namespace)).toBe(90);
  await expect(prepare(namespace, { RETENTION_HOURS: '24' })).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('at least 720'),
  });
});
