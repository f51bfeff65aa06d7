import { once } from 'node:events';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { buildCli, type Cli } from '../support/cli.ts';
import { failMany, handOverMany, untilListed } from '../support/many-deliveries.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { connectTestClient, freshMerchant, type TestClient } from '../support/stack.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

/** `BULK_DELIVERIES=1000` for the size that is promised. */
const MANY = Number(process.env['BULK_DELIVERIES'] ?? 120);
const LONG = 60_000 + MANY * 600;
const why = ['--by', 'ann', '--why', 'their deploy is fixed'];
const cause = { by: 'ann', why: 'their deploy is fixed' };

let cli: Cli;
let client: TestClient;
let receiver: Receiver;

beforeAll(async () => {
  cli = await buildCli();
  // An attempt that dies with its worker is known to be lost soon.
  client = await connectTestClient({ attemptTimeoutMs: 2_000, attemptOverheadMs: 3_000 });
  receiver = await startReceiver();
}, 120_000);
afterAll(async () => {
  await client.close();
  await receiver.close();
  await cli.remove();
});

test(
  'R81 R82 bulk redelivery and cancellation survive the death of the command line and of the worker: each target once, and given twice it is one command',
  { timeout: 4 * LONG },
  async () => {
    let worker = await startWorkerProcess();
    const [toRedeliver, toCancel] = [freshMerchant(), freshMerchant()];
    await failMany(client, receiver, toRedeliver, MANY);
    await handOverMany(client, toCancel, MANY);
    await untilListed(client, toCancel, 'ExecutionStatus = "Running"', MANY);

    const redeliver = ['redeliver', '--all', '--merchant', toRedeliver, '--yes', ...why];
    const cancel = ['cancel', '--all', '--merchant', toCancel, '--yes', ...why];
    const terminals = [cli.start(redeliver), cli.start(cancel)];
    const startedIds = await Promise.all(terminals.map(idPrinted));
    await progressed(startedIds[0] ?? '', Math.floor(MANY / 4));
    for (const terminal of terminals) {
      terminal.kill('SIGKILL');
      await once(terminal, 'exit');
    }
    await progressed(startedIds[0] ?? '', Math.floor(MANY / 2));
    await worker.kill();
    worker = await startWorkerProcess();

    const [redelivered, cancelled] = await Promise.all([cli.json(redeliver), cli.json(cancel)]);
    expect(redelivered).toMatchObject({
      exitCode: 0,
      answer: { done: MANY, seen: MANY, skipped: {}, ...cause },
    });
    // What was cancelled in the moment before the death may have ended when it is looked at again.
    const { done, seen, skipped } = cancelled.answer as {
      done: number;
      seen: number;
      skipped: { ended?: number };
    };
    expect([seen, done + (skipped.ended ?? 0)]).toEqual([MANY, MANY]);

    await untilListed(client, toRedeliver, 'ExecutionStatus = "Completed"', MANY);
    await untilListed(client, toCancel, 'ExecutionStatus = "Canceled"', MANY);
    const runs = client.temporal.workflow.list({
      query: `WebhookMerchant = "${toRedeliver}" AND WorkflowType = "delivery"`,
    });
    const runsOf = Map.groupBy(await Array.fromAsync(runs), ({ workflowId }) => workflowId);
    expect(new Set([...runsOf.values()].map(({ length }) => length))).toEqual(new Set([2]));
    expect(await client.hooks.delivery(toRedeliver, 'w0').status()).toMatchObject({
      state: 'delivered',
      interventions: [{ what: 'redeliver', ...cause }],
    });
    expect(await client.hooks.delivery(toCancel, 'w0').status()).toMatchObject({
      state: 'cancelled',
      interventions: [{ what: 'cancel', ...cause }],
    });

    const again = await cli.json(redeliver);
    expect(again.answer).toMatchObject({ done: 0, skipped: { superseded: MANY } });
    await worker.kill();
  },
);

/** The id that the command line prints as soon as the command is stored. */
async function idPrinted(terminal: ReturnType<Cli['start']>): Promise<string> {
  let printed = '';
  terminal.stderr?.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  return await vi.waitFor(
    () => {
      const [id] = /bulk:[a-z]+:\w+/.exec(printed) ?? [];
      if (id === undefined) throw new Error(`no id yet: ${printed}`);
      return id;
    },
    { timeout: 60_000 },
  );
}

async function progressed(id: string, done: number): Promise<void> {
  await vi.waitFor(
    async () => expect((await client.hooks.bulkCommand(id).progress()).done).toBeGreaterThanOrEqual(done),
    { timeout: LONG, interval: 100 },
  );
}
