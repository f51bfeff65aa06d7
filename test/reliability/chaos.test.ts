import { expect, inject, test } from 'vitest';
import { runChaos } from '../chaos/chaos.ts';
import { judge } from '../chaos/oracle.ts';
import { reportOf } from '../chaos/report.ts';

const LIMIT_MS = 300_000;

test(
  'R7 R46 R48 R51 R64 D1 D5 kills of workers and server and a cut connection lose nothing, and all that is unusual is explained',
  { timeout: LIMIT_MS + 60_000 },
  async () => {
    const seed = Math.floor(Math.random() * 1_000_000);
    const lines: string[] = [`seed ${seed}`];
    const record = await runChaos({
      binary: inject('temporalBinary'),
      seed,
      deliveries: 150,
      kills: 3,
      perSecond: 10,
      deadline: Date.now() + LIMIT_MS,
      log: (line) => lines.push(line),
    });
    const judgement = judge(record);
    // The seed must be told: it makes the run again.
    expect(judgement.findings, `${lines.join('\n')}\n${reportOf(judgement)}`).toEqual([]);
    expect(record.accepted).toHaveLength(150);
    expect(record.disturbances.map(({ kind }) => kind)).toContain('server');
  },
);
