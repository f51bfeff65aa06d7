import { Pool } from 'pg';
import { startPostgres, type Postgres } from '../../test/support/postgres.ts';
import { startQueueProcess, type WorkerProcess } from '../child.ts';
import { cpuMsOf, cpuMsOfFamily } from '../cpu.ts';
import { manyAtATime, until } from '../pace.ts';
import type { Scenario } from '../scenario.ts';
import { cpuInWords, runRound } from './round.ts';
import { betweenFloors, cpuFigures } from './rounds.ts';
import { LOAD, perUnit, withBothSides, type Cpu, type Sides } from './sides.ts';

const AT_A_TIME = 20;
const PATH = 'queue';

interface Queue {
  readonly postgres: Postgres;
  readonly pool: Pool;
  readonly sender: WorkerProcess;
}

/** What a queue in a table costs, whose rows are posted and marked and nothing else, beside the bare engine. */
export const queue: Scenario = async ({ quick, log }) => {
  const count = quick ? 100 : 1_000;
  return await withBothSides(undefined, async (sides) => {
    const table = await startQueue(sides);
    const pace = { atATime: AT_A_TIME };
    const bare = async (number: number) => {
      const load = { merchants: [PATH], path: PATH, prefix: `r${number}-`, count, pace };
      const result = await runRound(sides, sides.bare, load);
      log(`bare ${number}: ${cpuInWords(result.cpu)}`);
      return result;
    };
    const product = async (number: number) => {
      const cpu = await queueRound(sides, table, `q${number}-`, count);
      log(`queue ${number}: ${cpuInWords(cpu)}`);
      return { cpu };
    };
    await bare(0);
    await product(0);
    return cpuFigures('queue', await betweenFloors(quick ? 1 : 5, bare, product), undefined, 'queue');
  });
};

async function startQueue(sides: Sides): Promise<Queue> {
  const postgres = await startPostgres();
  sides.atEnd(() => postgres.remove());
  const pool = new Pool({ connectionString: postgres.url, max: AT_A_TIME });
  sides.atEnd(() => pool.end());
  await pool.query(
    'CREATE TABLE webhook (position bigserial, id text PRIMARY KEY, url text, body text, delivered_at timestamptz)',
  );
  await pool.query('CREATE INDEX ON webhook (position) WHERE delivered_at IS NULL');
  const sender = await startQueueProcess(postgres.url, { environment: process.env });
  sides.atEnd(() => sender.stop());
  return { postgres, pool, sender };
}

async function queueRound({ receiver }: Sides, table: Queue, prefix: string, count: number): Promise<Cpu> {
  const arrivedBefore = await receiver.count(PATH);
  const before = await cpuOfQueue(table);
  await manyAtATime(AT_A_TIME, count, async (index) => {
    const row = [`${prefix}${index}`, receiver.url(PATH), LOAD.body];
    await table.pool.query('INSERT INTO webhook (id, url, body) VALUES ($1, $2, $3)', row);
  });
  await until('all have arrived', async () => (await receiver.count(PATH)) >= arrivedBefore + count);
  return perUnit(before, await cpuOfQueue(table), count);
}

async function cpuOfQueue({ postgres, sender }: Queue): Promise<Cpu> {
  const [worker, server] = [await cpuMsOf(sender.pid), await cpuMsOfFamily(postgres.pid())];
  return { worker, server, sum: worker + server };
}
