/** The bare engine's worker as a process of its own, with the options of the product's; its argument is the path of its bundle. */
import { ApplicationFailure } from '@temporalio/common';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { Agent } from 'undici';
import { BARE_TASK_QUEUE, type BareActivities } from '../bare/messages.ts';
import { temporalOf } from '../temporal.ts';

const { connection, namespace } = temporalOf(process.env);
Runtime.install({
  logger: new DefaultLogger('ERROR'),
  telemetryOptions: { logging: { forward: { level: 'ERROR' } } },
});
const agent = new Agent({ connections: 64, keepAliveTimeout: 4_000 });
const activities: BareActivities = {
  async post({ url, webhookId, body, anyAnswer = false }) {
    const { origin, pathname } = new URL(url);
    const { statusCode, body: answer } = await agent.request({
      origin,
      path: pathname,
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-Webhook-Id': webhookId },
      body,
    });
    await answer.dump();
    if (statusCode < 300 || anyAnswer) return statusCode;
    throw ApplicationFailure.create({ message: `answered ${statusCode}`, category: 'BENIGN' });
  },
};
const worker = await Worker.create({
  connection: await NativeConnection.connect(connection),
  namespace,
  taskQueue: BARE_TASK_QUEUE,
  workflowBundle: { codePath: process.argv[2] ?? '' },
  maxConcurrentActivityTaskExecutions: 100,
  shutdownGraceTime: 1_000,
  activities: { ...activities },
});
process.on('disconnect', () => worker.shutdown());
const done = worker.run();
process.send?.('polling');
await done;
process.exit();
