import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium, type Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { examine } from '../../src/doctor/examine.ts';
import { reportAsHtml } from '../../src/doctor/html.ts';
import { findChromium } from '../support/browser.ts';
import { kit, root, SECRET, served } from '../doctor/receivers.ts';

const browserPath = await findChromium();
let browser: Browser;
let folder: string;

describe.skipIf(browserPath === undefined)('the report of the doctor (needs Chromium)', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hookladder-report-'));
    browser = await chromium.launch({
      executablePath: browserPath ?? '',
      // Root, as in a container, has no sandbox.
      chromiumSandbox: process.getuid?.() !== 0,
    });
  }, 60_000);
  afterAll(async () => {
    await browser.close();
    await rm(folder, { recursive: true });
  });

  test('is read on a screen, on a phone and on paper, light and dark, without anything from elsewhere', async () => {
    const tls = root.server({ hosts: ['127.0.0.1'], fromDay: -80, untilDay: 9 });
    const verify = kit({ toleranceSeconds: 86_400, store: undefined });
    const url = await served((request, response) => {
      response.shouldKeepAlive = false;
      verify(request, response);
    }, tls);
    const report = await examine({
      url,
      secret: SECRET,
      allowedNetworks: ['127.0.0.0/8'],
      trustedCertificates: [root.pem],
      limits: { paceMs: 0, idleMs: 100 },
    });
    const shown = { ...report, url: 'https://shop.example/webhooks' };
    const file = join(folder, 'report.html');
    await writeFile(file, reportAsHtml(shown).replaceAll('127.0.0.1', '203.0.113.7'));
    const page = await browser.newPage({ viewport: { width: 860, height: 915 }, colorScheme: 'light' });
    const others: string[] = [];
    page.on('request', (request) => others.push(request.url()));
    const errors: string[] = [];
    page.on('console', (message) => errors.push(message.text()));
    await page.goto(pathToFileURL(file).href);
    expect(others).toEqual([pathToFileURL(file).href]);
    expect(errors).toEqual([]);

    expect(await page.getByRole('heading', { level: 1 }).innerText()).toContain('1 fault');
    const cards = page.getByRole('article');
    expect(await cards.getByRole('heading').allInnerTexts()).toMatchObject([
      expect.stringContaining('too old'),
      expect.stringContaining('certificate'),
      expect.stringContaining('Connections'),
      expect.stringContaining('once'),
    ]);
    await expect(cards.first().innerText()).resolves.toMatch(/What to do\s+Refuse timestamps/);
    expect(await page.getByRole('row').count()).toBe(report.counts.ok + report.counts['not-checked']);
    const background = async () => await page.evaluate('getComputedStyle(document.body).backgroundColor');
    const light = await background();
    const target = process.env['SCREENSHOTS'] ?? folder;
    await mkdir(target, { recursive: true });
    await page.screenshot({ path: join(target, 'doctor-report.png'), animations: 'disabled' });

    await page.emulateMedia({ colorScheme: 'dark' });
    expect(await background()).not.toBe(light);
    await page.screenshot({ path: join(folder, 'dark.png') });
    await page.emulateMedia({ colorScheme: 'light', media: 'print' });
    expect(await background()).toBe('rgb(255, 255, 255)');
    await page.emulateMedia({ media: 'screen' });
    await page.setViewportSize({ width: 360, height: 740 });
    // Nothing is cut off at the side.
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360);
    await page.screenshot({ path: join(folder, 'phone.png') });
  });
});
