import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { checks } from '../../src/doctor/checks.ts';
import { defaultPolicy } from '../../src/policy/policy.ts';
import { verify } from '../../src/receiver/index.ts';

const root = join(import.meta.dirname, '..', '..');
const read = async (path: string): Promise<string> => await readFile(join(root, path), 'utf8');
const words = (source: string, pattern: RegExp): string[] =>
  [...source.matchAll(pattern)].flatMap(([match]) =>
    [...match.matchAll(/'([a-z-]+)'/g)].map(([, word]) => word ?? ''),
  );

/** All that a verdict, and the end of a delivery, can be called. */
async function codes(): Promise<string[]> {
  const kinds = words(await read('src/policy/verdicts.ts'), /readonly kind: [^;]+;/g);
  const failures = words(await read('src/http/network-failures.ts'), /code: '[a-z-]+'/g);
  const reasons = words(await read('src/policy/ladders.ts'), /export type FailureReason =[^;]+;/g);
  return [...new Set([...kinds, ...failures, ...reasons])];
}

describe.each(['receivers.md', 'receivers.ru.md'])('%s', (name) => {
  const page = read(`docs/${name}`);

  test('R90 has each verdict, each code and each reason in its tables', async () => {
    const known = await codes();
    expect(known.length).toBeGreaterThan(30);
    const text = await page;
    expect(known.filter((code) => !new RegExp(`^\\| \`${code}\` +\\| \\S`, 'm').test(text))).toEqual([]);
  });

  test('R61 has each problem that the kit names', async () => {
    const problems = [...(await read('src/receiver/problems.ts')).matchAll(/^ {2}'([a-z-]+)': \[/gm)].map(
      ([, code]) => code,
    );
    expect(problems.length).toBeGreaterThan(10);
    const text = await page;
    expect(problems.filter((code) => !text.includes(`\`${code}\``))).toEqual([]);
    const unknown = await verify({}, 'x', 'secret of more than 16');
    expect(unknown.ok ? '' : unknown.problem.code).toBe('missing-signature');
  });

  test('R10 R20 R42 has the numbers of the ladders and the breaker', async () => {
    const text = await page;
    const fast = Array.from({ length: defaultPolicy.fast.budget - 1 }, (_, nth) => 2 ** nth).join(', ');
    expect(text).toContain(fast);
    const { firstPauseMs, longestPauseMs } = defaultPolicy.breaker;
    expect(text).toContain(`${firstPauseMs / 60_000}, 10, 20, ${longestPauseMs / 60_000}`);
    expect(defaultPolicy.slow.stepsMs.map((ms) => ms / 60_000)).toEqual([15, 60, 240, 720, 1440]);
  });

  test('has each check of the doctor', async () => {
    const text = await page;
    const missing = checks.filter(({ id }) => !new RegExp(`^\\| \`${id}\` +\\| \\S`, 'm').test(text));
    expect(missing.map(({ id }) => id)).toEqual([]);
  });

  test('names files that exist', async () => {
    const links = [...(await page).matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path]) => path ?? '');
    for (const link of links) await access(join(root, 'docs', link));
    expect(links.length).toBeGreaterThan(5);
  });
});

test('the doctor names sections that exist', async () => {
  const headings = new Set(
    [...(await read('docs/receivers.md')).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^a-z ]/g, '')
        .replaceAll(' ', '-'),
    ),
  );
  expect(checks.map(({ section }) => section).filter((section) => !headings.has(section))).toEqual([]);
});

test('both languages have the same tables and programs', async () => {
  const [english, russian] = await Promise.all([read('docs/receivers.md'), read('docs/receivers.ru.md')]);
  const shape = (text: string) =>
    text
      .split('\n')
      .filter((line) => /^(?:\||#+ |```)/.test(line))
      .map((line) => line.charAt(0));
  expect(shape(russian).join('')).toBe(shape(english).join(''));
});
