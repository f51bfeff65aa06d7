import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import { startBareWorkerProcess, startLoadProcess, type WorkerProcess } from '../child.ts';
import { cpuMsOf } from '../cpu.ts';
import { manyAtATime, until } from '../pace.ts';
import type { Figure } from '../figures.ts';
import type { Scenario, ScenarioContext } from '../scenario.ts';
import type { Load, Submitted } from '../processes/load.ts';
import { freshMerchant, KEYS, onStand, SECRET, type Stand, type StandOptions } from '../stand.ts';

/** The product and the bare engine, side by side on one server. */
export interface Sides extends Stand {
  readonly product: Side;
  readonly bare: Side;
}

/** One of the two things that are compared. */
export interface Side {
  readonly name: 'product' | 'bare';
  readonly worker: () => WorkerProcess;
  /** Ends its workers and starts them anew, with these options of Node beside those of the stand. */
  restart(nodeOptions?: readonly string[]): Promise<void>;
  /** Hands over webhooks from the load generator's process. */
  submit(load: Omit<Load, 'side' | 'type' | 'body'> & Partial<Load>): Promise<Submitted>;
}

/** Processor time of worker and server, in ms; the server's is not known if it is not ours. */
export interface Cpu {
  readonly worker: number;
  readonly server?: number;
  readonly sum: number;
}

/** A webhook of 900 bytes that moves no money. */
const BODY_BYTES = 900;
const body = JSON.stringify({ status: 'pending', padding: '' });
export const LOAD = {
  type: 'payment.status_changed',
  body: body.replace('""', `"${'x'.repeat(BODY_BYTES - body.length)}"`),
} as const;

/** Runs with both sides on a stand of its own. The product's workers log as they do by default. */
export async function withBothSides<T>(
  policy: PolicyOverrides | undefined,
  run: (sides: Sides) => Promise<T>,
  options: StandOptions = {},
): Promise<T> {
  return await onStand(
    policy,
    async (stand) => {
      const { environment } = stand;
      const load = await startLoadProcess(
        { keys: KEYS, ...(policy === undefined ? {} : { policy }) },
        { environment },
      );
      stand.atEnd(() => load.stop());
      const nodeOptions = options.nodeOptions ?? [];
      const bundlePath = await writeBareBundle(stand);
      const startBareWorker = async (more: readonly string[] = []) => {
        const started = await startBareWorkerProcess(bundlePath, {
          environment,
          nodeOptions: [...nodeOptions, ...more],
        });
        stand.atEnd(() => started.stop());
        return started;
      };
      const side = (name: Side['name'], first: WorkerProcess, start: Stand['startWorker']): Side => {
        let worker = first;
        return {
          name,
          worker: () => worker,
          async restart(more) {
            await worker.stop();
            worker = await start(more);
          },
          submit: async (given) => await load.submit({ side: name, ...LOAD, ...given }),
        };
      };
      const product = side('product', stand.worker, stand.startWorker);
      const bare = side('bare', await startBareWorker(), startBareWorker);
      return await run({ ...stand, product, bare });
    },
    { logFile: '/dev/null', ...options },
  );
}

/** A part of a scenario for each form, on stands of their own. */
export function eachOnBothSides<Form>(
  forms: readonly Form[],
  measure: (sides: Sides, form: Form, context: ScenarioContext) => Promise<Figure[]>,
): readonly Scenario[] {
  return forms.map(
    (form) => async (context) =>
      await withBothSides(undefined, async (sides) => await measure(sides, form, context)),
  );
}

/** Merchants that receive at one path of the receiver. */
export async function merchantsAt(
  { hooks, receiver }: Stand,
  path: string,
  count: number,
): Promise<readonly string[]> {
  const merchants = Array.from({ length: count }, () => freshMerchant(path));
  await manyAtATime(20, count, async (index) => {
    const merchant = hooks().merchant(merchants[index] ?? '');
    await merchant.setEndpoint({ url: receiver.url(path), secret: SECRET });
  });
  return merchants;
}

/** What worker and server of a side have used until now. */
export async function cpuOf({ server }: Stand, side: Side): Promise<Cpu> {
  const worker = await cpuMsOf(side.worker().pid);
  if (server.pid === undefined) return { worker, sum: worker };
  const ofServer = await cpuMsOf(server.pid);
  return { worker, server: ofServer, sum: worker + ofServer };
}

/** The difference, divided. */
export function perUnit(before: Cpu, after: Cpu, units: number): Cpu {
  const worker = (after.worker - before.worker) / units;
  if (after.server === undefined || before.server === undefined) return { worker, sum: worker };
  const server = (after.server - before.server) / units;
  return { worker, server, sum: worker + server };
}

/** Resolves when nothing of a side is under way; by visibility, which lags a little. */
export async function untilNoneRuns({ temporal }: Stand, { name }: Side): Promise<void> {
  const types = name === 'product' ? ['delivery'] : ['barePost', 'barePostLocally', 'bareSleeper'];
  const query = `ExecutionStatus = 'Running' AND WorkflowType IN ('${types.join("', '")}')`;
  await until(`all of ${name} have ended`, async () => (await temporal.workflow.count(query)).count === 0, {
    everyMs: 500,
    withinMs: 10 * 60_000,
  });
}

async function writeBareBundle({ folder }: Stand): Promise<string> {
  const path = join(folder, 'bare-workflows.js');
  const { code } = await bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL('../bare/workflows.ts', import.meta.url)),
    logger: new DefaultLogger('WARN'),
  });
  await writeFile(path, code);
  return path;
}
