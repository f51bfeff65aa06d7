import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { Hookladder } from '../src/client.ts';
import { SEARCH_ATTRIBUTES } from '../src/contract.ts';
import { startLocalServer } from '../src/local/server.ts';
import { findTemporalBinary } from '../src/local/temporal-binary.ts';
import { startWorkers } from '../src/workers.ts';
import { startReceiver } from './support/receiver.ts';
Runtime.install({
  logger: new DefaultLogger('WARN'),
  telemetryOptions: { logging: { forward: { level: 'WARN' } } },
});
const binary = await findTemporalBinary();
const server = await startLocalServer({
  binary: binary.path,
  headless: true,
  searchAttributes: SEARCH_ATTRIBUTES,
  dynamicConfig: {
    'matching.enableFairness': true,
    'system.forceSearchAttributesCacheRefreshOnRead': true,
    'frontend.WorkflowTimeSkippingEnabled': true,
  },
});
const secretKeys = { keys: `test:${Buffer.alloc(32, 7).toString('base64')}` };
const connection = await Connection.connect({ address: server.address });
const client = new Client({ connection });
const workers = await startWorkers({
  connection: { address: server.address },
  namespace: 'default',
  secretKeys,
  shutdownGraceMs: 1000,
});
const receiver = await startReceiver(() => 404);
function skipping(client: Client, config: object): Client {
  const { workflowService } = client.connection;
  const s = Object.create(workflowService, {
    startWorkflowExecution: {
      value: (r: object) =>
        workflowService.startWorkflowExecution({
          ...r,
          timeSkippingConfig: { enabled: true, ...config },
        } as never),
    },
  });
  return new Client({ connection: Object.create(client.connection, { workflowService: { value: s } }) });
}
const days = Number(process.argv[2] ?? 5);
const t0 = Date.now();
const m = `m-${Date.now()}`;
const hooks = new Hookladder({
  client: skipping(client, {
    maxSessionSkipCount: 100000,
    ...(process.argv[3] ? { fastForwardConfig: { id: 'ff', duration: { seconds: days * 86400 } } } : {}),
  }),
  secretKeys,
  allowHttp: true,
});
const body = JSON.stringify({ status: 'paid', pad: 'x'.repeat(256 * 1024 - 40) });
const { delivery } = await hooks.deliver({ merchantId: m, type: 'payment.status_changed', body });
const handle = client.workflow.getHandle(delivery.workflowId);
if (process.argv[3]) {
  for (let i = 0; i < 60; i++) {
    await new Promise((r) => setTimeout(r, 500));
    const d = await handle.describe();
    const s = (d.raw.workflowExtendedInfo as any)?.timeSkippingInfo;
    if (i % 10 === 0) console.log(Date.now() - t0, d.historyLength, JSON.stringify(s));
    if ((s && JSON.stringify(s).includes('"hasReached')) || s?.fastForwardInfo?.hasCompleted) {
      console.log(JSON.stringify(s));
      break;
    }
    if (i > 20 && !process.argv[4]) break;
  }
  console.log(await delivery.status());
  await hooks.merchant(m).setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
  await new Promise((r) => setTimeout(r, 1500));
  console.log(await delivery.status());
  console.log(
    JSON.stringify(
      await client.workflowService.updateWorkflowExecutionOptions({
        namespace: 'default',
        workflowExecution: { workflowId: delivery.workflowId },
        workflowExecutionOptions: { timeSkippingConfig: { enabled: true, maxSessionSkipCount: 1000 } },
        updateMask: { paths: ['time_skipping_config'] },
      }),
    ),
  );
}
console.log(await delivery.result());
const d = await handle.describe();
console.log(
  'wall',
  Date.now() - t0,
  'bytes',
  d.raw.workflowExecutionInfo?.historySizeBytes,
  'events',
  d.historyLength,
);
const h = await handle.fetchHistory();
const kinds: Record<string, number> = {};
for (const e of h.events ?? []) {
  const k = Object.keys(e).find((k) => k.endsWith('EventAttributes')) ?? '?';
  kinds[k] = (kinds[k] ?? 0) + 1;
}
console.log(kinds);
console.log(
  JSON.stringify(
    (h.events ?? []).slice(0, 30).map((e) => ({ ...e })),
    (k, v) => (typeof v === 'string' && v.length > 200 ? v.slice(0, 50) : k === 'data' ? '…' : v),
    1,
  ).slice(0, 200),
);
await workers.shutdown();
await receiver.close();
await connection.close();
await server.stop();
