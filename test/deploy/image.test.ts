import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { reserveFreePort } from '../../src/local/free-port.ts';
import { VERSION } from '../../src/version.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import {
  connectTestClient,
  ENCRYPTION,
  freshMerchant,
  LOOPBACK,
  SECRET_KEYS,
  temporalAddress,
  type TestClient,
} from '../support/stack.ts';

const root = join(import.meta.dirname, '..', '..');
let app: string;
let client: TestClient;
let receiver: Receiver;

beforeAll(async () => {
  client = await connectTestClient();
  receiver = await startReceiver();
  // Outside of the repository, whose packages would be found otherwise.
  app = await mkdtemp(join(tmpdir(), 'hookladder-image-'));
  await promisify(execFile)('sh', [join(root, 'deploy', 'image.sh'), app]);
}, 180_000);
afterAll(async () => {
  await client.close();
  await receiver.close();
  await rm(app, { recursive: true });
});

/** Names, sizes and times of all files but the packages'. */
async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !entry.parentPath.includes('/node_modules/@'));
  return await Promise.all(
    files.map(async ({ parentPath, name }) => {
      const { size, mtimeMs } = await stat(join(parentPath, name));
      return `${join(parentPath, name)} ${size} ${mtimeMs}`;
    }),
  );
}

test('the command line is a program, by the link that the Dockerfile makes', async () => {
  const [, target = '', name = ''] =
    /^RUN ln -s \/app\/(\S+) \S+\/(\w+)$/m.exec(await readFile(join(root, 'Dockerfile'), 'utf8')) ?? [];
  const folder = await mkdtemp(join(tmpdir(), 'hookladder-path-'));
  await symlink(join(app, target), join(folder, name));
  const env = { PATH: [folder, dirname(process.execPath)].join(delimiter), NODE_DISABLE_COMPILE_CACHE: '1' };
  expect((await promisify(execFile)('hookladder', ['--version'], { env })).stdout).toBe(`${VERSION}\n`);
  await rm(folder, { recursive: true });
});

test('the contents of the image deliver a webhook by the bundle that was made beforehand, and write nothing', async () => {
  const before = await filesOf(app);
  expect(before.filter((file) => /\.ts |\/test\//.test(file) && !file.includes('node_modules'))).toEqual([]);
  // Without it, nothing could be bundled at the start.
  await rm(join(app, 'dist', 'workflows', 'index.js'));
  const port = await reserveFreePort('127.0.0.1');
  const worker = spawn(process.execPath, [join(app, 'dist', 'cli', 'main.js'), 'worker'], {
    cwd: app,
    stdio: 'pipe',
    env: {
      NODE_ENV: 'production',
      TEMPORAL_ADDRESS: temporalAddress(),
      HOOKLADDER_SECRET_KEYS: SECRET_KEYS.keys,
      HOOKLADDER_ENCRYPTION_KEYS: ENCRYPTION.keys,
      HOOKLADDER_ALLOWED_NETWORKS: LOOPBACK.join(','),
      HOOKLADDER_WORKFLOW_BUNDLE: join(app, 'workflow-bundle'),
      HOOKLADDER_HEALTH_ADDRESS: `0.0.0.0:${port}`,
    },
  });
  const exited = once(worker, 'exit');
  let output = '';
  for (const stream of [worker.stdout, worker.stderr])
    stream.on('data', (chunk) => (output += String(chunk)));

  const [, probe = ''] =
    /CMD \["node", "-e", "(.*)"\]/.exec(await readFile(join(root, 'Dockerfile'), 'utf8')) ?? [];
  await vi.waitFor(
    async () => {
      if (worker.exitCode !== null) throw new Error(output);
      expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200);
    },
    { timeout: 60_000, interval: 200 },
  );
  const env = { HOOKLADDER_HEALTH_ADDRESS: `0.0.0.0:${port}` };
  await promisify(execFile)(process.execPath, ['-e', probe], { env });

  const merchantId = freshMerchant();
  await client.hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
  const { delivery } = await client.hooks.deliver({ merchantId, type: 'kyc.status_changed', body: '{}' });
  expect(await delivery.result()).toMatchObject({ state: 'delivered' });
  worker.kill('SIGTERM');
  await exited;
  expect([worker.exitCode, output]).toEqual([0, expect.not.stringContaining('"level":50')]);
  const index = join(app, 'dist', 'workflows', 'index.js ');
  expect(await filesOf(app)).toEqual(before.filter((file) => !file.startsWith(index)));
  await expect(promisify(execFile)(process.execPath, ['-e', probe], { env })).rejects.toMatchObject({
    code: 1,
  });
});
