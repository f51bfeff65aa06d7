import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { RunningWorkers } from '../../src/workers.ts';
import {
  connectTestClient,
  SECRET_KEYS,
  startTestWorkers,
  temporalAddress,
  type TestClient,
} from '../support/stack.ts';
import { NO_BREAKER } from '../support/time-skipping.ts';
import { readVectors, type LadderCase, type MoneyCase, type VectorCase } from './cases.ts';
import { LadderStand } from './ladder-stand.ts';
import type { Outcome } from './outcome.ts';
import { runCase, runCases } from './run-cases.ts';

const { cases, unusable } = await readVectors(import.meta.dirname);
const of = (file: VectorCase['file']) => cases.filter((vector) => vector.file === file);
const noStand = () => Promise.reject(new Error('only ladder cases need a server'));

describe('the shared vectors', () => {
  test('all files and cases are known', () => {
    expect(unusable).toEqual([]);
    const files = ['money.json', 'signatures.json', 'breaker.json', 'ladders.json'] as const;
    for (const file of files) expect([file, of(file).length]).not.toEqual([file, 0]);
  });

  test.each(of('money.json'))('R30 money: $name', async (vector) => {
    expect(await runCase(vector, noStand)).toMatchObject({ problems: [] });
  });

  test.each(of('signatures.json'))('R61 R62 signature: $name', async (vector) => {
    expect(await runCase(vector, noStand)).toMatchObject({ problems: [] });
  });

  test.each(of('breaker.json'))('R40 R41 R42 R44 R45 R49 breaker: $name', async (vector) => {
    expect(await runCase(vector, noStand)).toMatchObject({ problems: [] });
  });

  describe('ladders', () => {
    const outcomes = new Map(
      of('ladders.json').map((vector) => [vector, Promise.withResolvers<Outcome>()] as const),
    );
    let client: TestClient;
    let workers: RunningWorkers;
    let stand: LadderStand;
    let all: Promise<void>;

    beforeAll(async () => {
      client = await connectTestClient(NO_BREAKER);
      workers = await startTestWorkers();
      stand = await LadderStand.open(client.temporal, client.hooks);
      all = runCases(
        [...outcomes.keys()],
        () => Promise.resolve(stand),
        (outcome, vector) => outcomes.get(vector)?.resolve(outcome),
      );
    });
    afterAll(async () => {
      await all;
      await workers.shutdown();
      await stand.close();
      await client.close();
    });

    test.each([...outcomes.keys()])('R10 R12 R20 R21 R23 ladder: $name', async (vector) => {
      expect(await outcomes.get(vector)?.promise).toMatchObject({ problems: [] });
    });
  });
});

describe('npm run vectors', () => {
  const paid: MoneyCase = { type: 'payment.status_changed', status: 'paid', money: true };
  const wrong: MoneyCase = { type: 'payment.status_changed', status: 'failed', money: true };

  test('passes a folder whose cases all hold, and says how many', async () => {
    const { code, lines } = await vectorsOf({ 'money.json': [paid], 'README.md': 'words' });
    expect([code, lines]).toEqual([
      0,
      ['ok   money.json "payment.status_changed paid"', '1 passed, 0 failed'],
    ]);
  });

  test('names a wrong expectation with what was expected and what came', async () => {
    const { code, lines } = await vectorsOf({ 'money.json': [paid, wrong] });
    expect([code, lines]).toEqual([
      1,
      [
        'ok   money.json "payment.status_changed paid"',
        'FAIL money.json "payment.status_changed failed"',
        '     money: expected true, got false',
        '1 passed, 1 failed',
      ],
    ]);
  });

  test.each<[why: string, files: Record<string, unknown>, named: string]>([
    ['an unknown file', { 'retries.json': [paid] }, 'FAIL retries.json'],
    ['code in a folder that is not its own', { 'cases.ts': '' }, 'FAIL cases.ts'],
    ['an unreadable file', { 'ladders.json': '[{' }, 'FAIL ladders.json'],
    ['a file that is no array', { 'breaker.json': { name: 'x' } }, 'FAIL breaker.json'],
    ['a file without cases', { 'signatures.json': [] }, 'FAIL signatures.json'],
    ['an unknown field', { 'breaker.json': [{ name: 'odd', steps: [], why: 1 }] }, 'FAIL breaker.json "odd"'],
    ['a case of another shape', { 'ladders.json': ['dead endpoint'] }, 'FAIL ladders.json "case 1"'],
  ])('counts %s as a failure', async (_why, files, named) => {
    const { code, lines } = await vectorsOf({ ...files, 'money.json': [paid] });
    expect(code).toBe(1);
    expect(lines.join('\n')).toContain(named);
    expect(lines.at(-1)).toBe('1 passed, 1 failed');
  });

  test('counts an empty and a missing folder as a failure', async () => {
    const empty = await vectorsOf({});
    expect([empty.code, empty.lines.at(-1)]).toEqual([1, '0 passed, 1 failed']);
    expect(empty.lines[0]).toContain('FAIL');
    const missing = await run([join(tmpdir(), 'no-such-vectors')]);
    expect([missing.code, missing.lines.at(-1)]).toEqual([1, '0 passed, 1 failed']);
    expect(missing.lines.join('\n')).toContain('no-such-vectors');
  });

  test.each([[[]], [['one', 'two']], [['--all']]])('is called wrongly with %j', async (args) => {
    const { code, lines } = await run(args);
    expect([code, lines]).toEqual([2, []]);
  });

  test('R10 runs ladder cases as deliveries, names each, and finds what is wrong', async () => {
    const rejected: LadderCase = {
      name: 'rejected',
      money: false,
      verdicts: [404],
      lastVerdictRepeats: true,
      expect: {
        attemptOffsets: [0],
        state: 'failed',
        reason: 'rejected',
        endOffset: 0,
        fastFailures: 0,
        slowSteps: 0,
      },
    };
    const late: LadderCase = {
      ...rejected,
      name: 'late',
      verdicts: [503, 200],
      expect: {
        attemptOffsets: [0, 2],
        state: 'delivered',
        endOffset: 2,
        fastFailures: 1,
        slowSteps: 0,
      },
    };
    const held: LadderCase = {
      ...rejected,
      name: 'held',
      heldBefore: 5,
      expect: { ...rejected.expect, attemptOffsets: [5], endOffset: 5 },
    };
    const { code, lines } = await vectorsOf(
      { 'ladders.json': [rejected, late, held] },
      { TEMPORAL_ADDRESS: temporalAddress(), HOOKLADDER_SECRET_KEYS: SECRET_KEYS.keys },
    );
    const printed = lines.join('\n');
    expect(printed).toMatch(/^ok {3}ladders\.json "rejected" \(delivery:\S+\)$/m);
    expect(printed).toMatch(/^ok {3}ladders\.json "held" \(pure\)$/m);
    expect(printed).toMatch(
      /^FAIL ladders\.json "late" \(delivery:\S+\)\n {5}attemptOffsets: expected \[0,2\], got \[0,1\]\n {5}endOffset: expected 2, got 1$/m,
    );
    expect([code, lines.at(-1)]).toEqual([1, '2 passed, 1 failed']);
  });
});

interface Ran {
  readonly code: number | string | null | undefined;
  readonly lines: string[];
}

/** Runs the runner on a folder that holds just these files. */
async function vectorsOf(files: Record<string, unknown>, environment?: NodeJS.ProcessEnv): Promise<Ran> {
  const folder = await mkdtemp(join(tmpdir(), 'hookladder-vectors-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
  return await run([folder], environment);
}

function run(args: string[], environment: NodeJS.ProcessEnv = {}): Promise<Ran> {
  const runner = join(import.meta.dirname, 'run.ts');
  const env = { ...process.env, TEMPORAL_ADDRESS: '', ...environment };
  return new Promise((resolve) => {
    execFile(process.execPath, [runner, ...args], { env }, (error, stdout) => {
      resolve({ code: error === null ? 0 : error.code, lines: stdout.split('\n').filter(Boolean) });
    });
  });
}
