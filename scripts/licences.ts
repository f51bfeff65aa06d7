/**
 * Fails if a package that production installs has a licence that nobody has agreed to. Reads the lock file only.
 * Usage: node scripts/licences.ts [--list]
 */
import { readFile } from 'node:fs/promises';

/** By SPDX; each of them allows use in closed products without conditions on these. */
const AGREED: ReadonlySet<string> = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'CC0-1.0',
  'ISC',
  'MIT',
  'Unlicense',
]);
/** Licences of files that tools read and that are not part of the product, by package. */
const AGREED_FOR: Readonly<Record<string, string>> = {
  // Data about browsers, used when the workflow bundle is made.
  'caniuse-lite': 'CC-BY-4.0',
  // The Unlicense, by its file LICENSE; its package.json does not say so.
  unionfs: 'none',
};

interface Locked {
  readonly license?: string;
  readonly dev?: boolean;
  readonly link?: boolean;
}

const lock = JSON.parse(await readFile(new URL('../package-lock.json', import.meta.url), 'utf8')) as {
  readonly packages: Readonly<Record<string, Locked>>;
};
const production = Object.entries(lock.packages)
  .filter(([path, { dev, link }]) => path !== '' && dev !== true && link !== true)
  .map(([path, { license = 'none' }]) => ({ name: path.replace(/^.*node_modules\//, ''), license }));
const refused = production.filter(({ name, license }) => !isAgreed(license) && AGREED_FOR[name] !== license);

if (process.argv.includes('--list')) {
  for (const [license, packages] of Map.groupBy(production, (each) => each.license)) {
    const names = [...new Set(packages.map(({ name }) => name))].toSorted();
    console.log(`${license} (${names.length}): ${names.join(', ')}`);
  }
}
for (const { name, license } of refused) {
  console.error(`${name} has the licence ${license}: replace it, or agree to it in scripts/licences.ts`);
}
console.log(`${production.length} packages in production, ${refused.length} with a licence not agreed to`);
process.exitCode = refused.length === 0 ? 0 : 1;

/** Of alternatives one is enough; what is joined must be agreed to all. */
function isAgreed(expression: string): boolean {
  return expression
    .replaceAll(/[()]/g, '')
    .split(' OR ')
    .some((alternative) => alternative.split(' AND ').every((license) => AGREED.has(license.trim())));
}
