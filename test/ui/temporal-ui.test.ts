import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type Browser, type Locator, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { Hookladder } from '../../src/client.ts';
import { findChromium } from '../support/browser.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';

const root = join(import.meta.dirname, '..', '..');
const browserPath = await findChromium();
const operations = await readFile(join(root, 'docs', 'operations.md'), 'utf8');
const LONG_MS = 60_000;
const merchantId = 'shop-1';
const webhookId = 'refund_1';

let folder: string;
let stack: ChildProcess;
let uiUrl: string;
let hooks: Hookladder;
let receiver: Receiver;
let browser: Browser;
let page: Page;

describe.skipIf(browserPath === undefined)('the Temporal UI (needs Chromium)', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hookladder-ui-'));
    receiver = await startReceiver(() => 503);
    await startStack();
    browser = await chromium.launch({
      executablePath: browserPath ?? '',
      // Root, as in a container, has no sandbox.
      chromiumSandbox: process.getuid?.() !== 0,
    });
    page = await browser.newPage({ viewport: { width: 1280, height: 720 }, colorScheme: 'light' });
    page.setDefaultTimeout(LONG_MS);
  }, 180_000);
  afterAll(async () => {
    await browser.close();
    await hooks.close();
    const exited = once(stack, 'exit');
    stack.kill('SIGINT');
    await exited;
    await receiver.close();
    await rm(folder, { recursive: true });
  });

  test(
    'R90 R49 finds a held delivery, says why it waits, and a reset by signal lets it go',
    { timeout: 240_000 },
    async () => {
      await openTheBreaker();
      await findHeld();
      await heldDelivery().click();
      await page.getByRole('tab', { name: 'User Metadata' }).click();
      await untilItSays(/held since .*the breaker of the merchant is not closed/);
      await shot('held-delivery');
      receiver.answer(() => 200);
      await sendSignal(
        `breaker:${merchantId}`,
        'resetBreaker',
        '{"by": "ann", "why": "their deploy is fixed"}',
      );
      await page.goto(`${uiUrl}/namespaces/default/workflows/delivery:${merchantId}:${webhookId}`);
      await page.getByRole('status').filter({ hasText: 'Completed' }).first().waitFor();
      await page.getByRole('tab', { name: 'User Metadata' }).click();
      await untilItSays(/delivered at .*HTTP 200/);
      await shot('delivered');
      expect(await hooks.delivery(merchantId, webhookId).status()).toMatchObject({ state: 'delivered' });
      expect((await hooks.merchant(merchantId).breaker())?.transitions).toContainEqual(
        expect.objectContaining({ by: 'ann', why: 'their deploy is fixed' }),
      );
    },
  );
});

/** As `hookladder up` is used: what it prints is exported. */
async function startStack(): Promise<void> {
  stack = spawn(
    process.execPath,
    [join(root, 'src', 'cli', 'main.ts'), 'up', '--state-folder', join(folder, 'state')],
    {
      env: { PATH: process.env['PATH'], TEMPORAL_CLI_PATH: inject('temporalBinary') },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let printed = '';
  for (const stream of [stack.stdout, stack.stderr]) {
    stream?.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  }
  await vi.waitFor(
    () => {
      if (stack.exitCode !== null) throw new Error(`it ended:\n${printed}`);
      expect(printed).toContain('Ctrl-C ends it');
    },
    { timeout: 120_000 },
  );
  uiUrl = /^Temporal UI +(\S+)$/m.exec(printed)?.[1] ?? '';
  // The suite's own key: the stack has another.
  delete process.env['HOOKLADDER_ENCRYPTION_KEYS'];
  for (const [, exports = ''] of printed.matchAll(/^ *export (.+)$/gm)) {
    for (const setting of exports.split(' ')) {
      const [name = '', ...value] = setting.split('=');
      process.env[name] = value.join('=');
    }
  }
  hooks = new Hookladder({ allowHttp: true });
}

async function openTheBreaker(): Promise<void> {
  await hooks.merchant(merchantId).setEndpoint({ url: receiver.url, secret: 'a secret of 20 bytes' });
  const paid = { merchantId, type: 'payment.status_changed', body: '{"status":"paid"}' };
  for (let number = 1; number <= 5; number++) {
    await hooks.deliver({ ...paid, webhookId: `pay_${number}-paid`, paymentId: `pay_${number}` });
  }
  await vi.waitFor(
    async () => expect((await hooks.merchant(merchantId).breaker())?.gate.circuit.state).toBe('open'),
    { timeout: LONG_MS },
  );
  await hooks.deliver({
    merchantId,
    webhookId,
    type: 'refund.completed',
    body: '{"status":"completed"}',
    paymentId: 'pay_1',
  });
  await vi.waitFor(
    async () =>
      expect(await hooks.delivery(merchantId, webhookId).status()).toMatchObject({ state: 'held-breaker' }),
    { timeout: LONG_MS },
  );
}

/** The query that the documentation has for it. Visibility may be late, so the list is looked at until it is there. */
async function findHeld(): Promise<void> {
  const query = /\| what is held of a merchant +\| `` (.+) `` +\|/.exec(operations)?.[1] ?? '';
  await page.goto(`${uiUrl}/namespaces/default/workflows?query=${encodeURIComponent(query)}`);
  await vi.waitFor(
    async () => {
      await page.getByRole('button', { name: 'Refresh' }).click();
      await heldDelivery().waitFor({ timeout: 5_000 });
    },
    { timeout: LONG_MS },
  );
  await shot('held-list');
}

function heldDelivery() {
  return page.getByRole('link', { name: `delivery:${merchantId}:${webhookId}`, exact: true });
}

/** The UI renders current details in a frame of their own. */
async function untilItSays(words: RegExp): Promise<void> {
  await vi.waitFor(
    async () => {
      const texts = await Promise.all(page.frames().map((frame) => frame.locator('body').innerText()));
      expect(texts.join('\n')).toMatch(words);
    },
    { timeout: LONG_MS },
  );
}

async function sendSignal(workflowId: string, name: string, input: string): Promise<void> {
  await page.goto(`${uiUrl}/namespaces/default/workflows/${workflowId}`);
  await page.getByRole('button', { name: 'More Actions' }).click();
  await page.getByRole('menuitem', { name: 'Send a Signal' }).click();
  const dialog = page.getByRole('dialog', { name: 'Send a Signal' });
  await dialog.getByRole('button', { name: 'Select a signal' }).click();
  await dialog.getByRole('option', { name, exact: true }).click();
  await dialog.getByRole('textbox', { name: 'Data' }).fill(input);
  await shot('send-signal', dialog);
  await dialog.getByRole('button', { name: 'Submit' }).click();
  await page.getByText('Workflow signaled.').first().waitFor();
}

/** Into the folder that `SCREENSHOTS` names, such as that of the documentation, else away with the rest. */
async function shot(name: string, what: Page | Locator = page): Promise<void> {
  const target = process.env['SCREENSHOTS'] ?? folder;
  await mkdir(target, { recursive: true });
  await what.screenshot({ path: join(target, `${name}.png`), animations: 'disabled' });
}
