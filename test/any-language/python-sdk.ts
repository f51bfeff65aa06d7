import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runProgram } from './run-program.ts';

const VERSION = '1.35.0';
const CRYPTOGRAPHY = '50.0.2';
const folder = fileURLToPath(new URL('../../.hookladder/python/', import.meta.url));

/** A Python that has Temporal's SDK, or the reason why there is none. */
export type PythonSdk = { readonly python: string } | { readonly missing: string };

/** Temporal's Python SDK in a virtual environment under `.hookladder/`, made when it is first needed. */
export async function pythonSdk(): Promise<PythonSdk> {
  const environment = join(folder, `temporalio-${VERSION}-cryptography-${CRYPTOGRAPHY}`);
  const python = join(environment, 'bin', 'python');
  if (await succeeds(python, ['-c', 'import temporalio.client, cryptography'])) return { python };
  try {
    await install(environment);
    return { python };
  } catch (error) {
    return { missing: error instanceof Error ? error.message : String(error) };
  }
}

/** Made aside and moved into place whole: another test run may be making it too. */
async function install(environment: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const aside = await mkdtemp(join(folder, 'installing-'));
  try {
    await mustSucceed('python3', ['-m', 'venv', aside]);
    await mustSucceed(join(aside, 'bin', 'python'), [
      '-m',
      'pip',
      'install',
      '--quiet',
      '--disable-pip-version-check',
      `temporalio==${VERSION}`,
      `cryptography==${CRYPTOGRAPHY}`,
    ]);
    await rm(environment, { recursive: true, force: true });
    await rename(aside, environment);
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
}

async function mustSucceed(command: string, args: readonly string[]): Promise<void> {
  const { exitCode, stdout, stderr } = await runProgram(command, args);
  if (exitCode === 0) return;
  const lastLine = `${stdout}\n${stderr}`.trim().split('\n').at(-1) ?? '';
  throw new Error(`\`${command} ${args.join(' ')}\` failed: ${lastLine}`);
}

async function succeeds(command: string, args: readonly string[]): Promise<boolean> {
  return await runProgram(command, args).then(
    ({ exitCode }) => exitCode === 0,
    () => false,
  );
}
