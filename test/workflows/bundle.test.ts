import { readFile } from 'node:fs/promises';
import { builtinModules } from 'node:module';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { expect, inject, test } from 'vitest';

const declaresState = /^(?:export )?(?:(?:let|var) .*|const .* = (?:new \w+(?:<.*>)?\(\)|\[\]|\{\});)$/gm;
const quiet = new DefaultLogger('ERROR', () => undefined);

test('no Node builtin reaches a workflow: the bundle requires none', async () => {
  const code = await readFile(inject('workflowBundlePath'), 'utf8');
  const required = [...code.matchAll(/\brequire\(["'](?:node:)?([a-z_/]+)["']\)/g)].map(
    ([, name]) => name ?? '',
  );
  expect(required.filter((name) => builtinModules.includes(name))).toEqual([]);
  expect(code).not.toMatch(/["']node:[a-z]/);
  expect(code).not.toMatch(
    /["']\.\/node_modules\/(undici|pino|uuid|@temporalio\/(client|worker|activity))\//,
  );
});

test('one that reaches a Node builtin through a module of ours is refused', async () => {
  const workflowsPath = fileURLToPath(new URL('./fixtures/reaches-node.ts', import.meta.url));
  await expect(bundleWorkflowCode({ workflowsPath, logger: quiet })).rejects.toThrow(/Webpack/);
});

test('workflows share their modules, which therefore keep no state: nothing is declared there that could change', async () => {
  const code = await readFile(inject('workflowBundlePath'), 'utf8');
  const modules = [...code.matchAll(/^\/\*{3}\/ "(\.\/src\/[^"]+)"$/gm)].map(([, path]) => path ?? '');
  expect(modules).toEqual(expect.arrayContaining(['./src/contract.ts', './src/workflows/delivery.ts']));
  const changeable = await Promise.all(
    modules.map(async (path) => {
      const source = await readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
      return source.match(declaresState) ?? [];
    }),
  );
  expect(changeable.flat()).toEqual([]);
});
