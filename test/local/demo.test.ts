import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';

const ENTRY = resolve(import.meta.dirname, '..', '..', 'src', 'local', 'start.ts');
const DEMO_LIMIT_MS = 150_000;

let stateFolder: string;
let started: Start[];

beforeEach(async () => {
  stateFolder = await mkdtemp(join(tmpdir(), 'hookladder-demo-'));
  started = [];
});
afterEach(async () => {
  for (const start of started) await start.kill();
  await rm(stateFolder, { recursive: true });
});

/** One `npm start`, without npm and without a terminal. */
class Start {
  output = '';
  private readonly child: ChildProcess;
  private readonly ended: Promise<unknown>;
  private readonly watchers = new Set<() => void>();

  constructor(...args: string[]) {
    this.child = spawn(process.execPath, [ENTRY, ...args], {
      env: { ...process.env, TEMPORAL_CLI_PATH: inject('temporalBinary') },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.output += text;
        for (const watcher of this.watchers) watcher();
      });
    }
    this.ended = once(this.child, 'close').then(() => {
      for (const watcher of this.watchers) watcher();
    });
    started.push(this);
  }

  /** Waits until the output matches. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.output);
      if (match !== null) return match;
      if (this.hasEnded()) throw new Error(`ended without saying ${pattern}:\n${this.output}`);
      const { promise, resolve: wake } = Promise.withResolvers<void>();
      this.watchers.add(wake);
      await promise;
      this.watchers.delete(wake);
    }
  }

  async exitCode(): Promise<number | null> {
    await this.ended;
    return this.child.exitCode;
  }

  interrupt(): void {
    this.child.kill('SIGINT');
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  private hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }
}

describe('npm start', () => {
  test(
    'with --once delivers webhooks of every fate, says what each waited for, and ends with 0',
    { timeout: DEMO_LIMIT_MS },
    async () => {
      const start = new Start('--once', '--state-folder', stateFolder);
      expect(await start.exitCode(), start.output).toBe(0);

      const { output } = start;
      expect(output).toMatch(/^\d demo-prompt \[delivered\] delivered at \S+ in attempt 1/m);
      expect(output).toMatch(
        /^\d demo-flaky \[waiting-fast\] waiting until \S+ for fast attempt \d of 6; last answer: /m,
      );
      expect(output).toMatch(/^\d demo-flaky \[delivered\] delivered at \S+ in attempt 4/m);
      expect(output).toMatch(
        /^\d demo-strict \[waiting-slow\] waiting until \S+: slow step 1 of 5; last answer: HTTP 401/m,
      );
      expect(output).toMatch(
        /^\d demo-strict \[waiting-slow\] waiting until \S+: slow step 2 of 5; last answer: HTTP 401/m,
      );
      expect(output).toMatch(/^\d demo-strict \[delivered\] delivered at \S+ in attempt 3/m);
      expect(output).toMatch(
        /^\d demo-picky \[failed\] FAILED at \S+ after 1 attempt: rejected \(4xx; not a money event, so not tried again\); last answer: HTTP 400/m,
      );
      expect(output).toMatch(
        /^\d demo-newcomer \[held-no-endpoint\] held since \S+: the merchant has no address/m,
      );
      expect(output).toMatch(/^\d demo-newcomer \[delivered\] delivered at \S+ in attempt 1/m);
      expect(output).toMatch(/^\d demo-outage \[held-breaker\] held since \S+: the breaker/m);
      expect(output).toMatch(/^\d demo-outage \[delivered\] delivered at \S+ in attempt 4/m);
      expect(output).toMatch(
        /^\d demo-overloaded \[failed\] FAILED at \S+ after 6 attempts: fast-ladder-exhausted/m,
      );
      expect(output).toMatch(/shortens the delivery rules[^]*15 min, 1 h, 4 h, 12 h, 24 h/);
      expect(
        output.match(/http:\/\/127\.0\.0\.1:\d+\/namespaces\/default\/workflows\/delivery%3Ademo-/g)?.length,
      ).toBe(9);
      const keys = await stat(join(stateFolder, 'secret-keys'));
      expect(keys.mode & 0o777).toBe(0o600);
    },
  );

  test(
    'interrupted in the middle ends with 0 and without its server; the next start goes on',
    { timeout: DEMO_LIMIT_MS },
    async () => {
      const first = new Start('--state-folder', stateFolder);
      await first.says(/demo-newcomer \[held-no-endpoint\]/);
      const [, webhookId] = await first.says(/delivery%3Ademo-newcomer%3A(\w+)/);
      const serverPid = await serverOf(stateFolder);
      expect(isAlive(serverPid)).toBe(true);

      first.interrupt();
      expect(await first.exitCode(), first.output).toBe(0);
      expect(isAlive(serverPid)).toBe(false);
      expect(first.output).not.toMatch(/demo-newcomer \[delivered\]/);

      const second = new Start('--once', '--state-folder', stateFolder);
      expect(await second.exitCode(), second.output).toBe(0);
      expect(second.output).toMatch(/Found \d open deliver(y|ies) of earlier starts/);
      const [, number] = await second.says(new RegExp(`^ (\\d+) demo-newcomer.*\\n.*%3A${webhookId}$`, 'm'));
      expect(second.output).toMatch(new RegExp(`^${number} demo-newcomer \\[held-no-endpoint\\]`, 'm'));
      expect(second.output).toMatch(new RegExp(`^${number} demo-newcomer \\[delivered\\]`, 'm'));
    },
  );

  test('a second one on the same state says who uses it and ends with 1', async () => {
    const first = new Start('--state-folder', stateFolder);
    await first.says(/starting the workers/);
    const second = new Start('--once', '--state-folder', stateFolder);
    expect(await second.exitCode()).toBe(1);
    expect(second.output).toMatch(/temporal\.db is in use by the server at 127\.0\.0\.1:\d+/);
    expect(second.output).not.toMatch(/^\s+at /m);
    first.interrupt();
    expect(await first.exitCode(), first.output).toBe(0);
  });

  test('a state folder that cannot be used is told in words', async () => {
    const file = join(stateFolder, 'a-file');
    await writeFile(file, '');
    const start = new Start('--once', '--state-folder', file);
    expect(await start.exitCode()).toBe(1);
    expect(start.output).toMatch(
      /^The local state cannot be kept in .*choose another one with --state-folder\.\n$/,
    );
  });

  test('an unknown argument is refused with 2 and the usage', async () => {
    const start = new Start('--onec');
    expect(await start.exitCode()).toBe(2);
    expect(start.output).toMatch(/Unknown option '--onec'[^]*Usage: npm start/);
  });
});

/** The server that the state is locked for. */
async function serverOf(folder: string): Promise<number> {
  const holder: unknown = JSON.parse(await readFile(join(folder, 'temporal.db.lock'), 'utf8'));
  expect(holder).toMatchObject({ serverPid: expect.any(Number) });
  return (holder as { serverPid: number }).serverPid;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
