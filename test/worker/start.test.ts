import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { ENCRYPTION, SECRET_KEYS, temporalAddress } from '../support/stack.ts';

const entry = fileURLToPath(new URL('../../src/worker.ts', import.meta.url));

interface End {
  readonly code: number | string | null | undefined;
  readonly output: string;
}

/** Runs a worker that cannot start, and waits for its end. */
async function end(environment: Record<string, string>): Promise<End> {
  return await new Promise((resolve) => {
    const env = {
      PATH: process.env['PATH'],
      TEMPORAL_ADDRESS: temporalAddress(),
      HOOKLADDER_SECRET_KEYS: SECRET_KEYS.keys,
      HOOKLADDER_ENCRYPTION_KEYS: ENCRYPTION.keys,
      ...environment,
    };
    execFile(process.execPath, [entry], { env, timeout: 50_000 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, output: stdout + stderr }),
    );
  });
}

describe('a worker that cannot start ends with 1 and says why', () => {
  test.each<[what: string, environment: Record<string, string>, says: RegExp]>([
    ['a misspelt variable', { HOOKLADDER_LOGLEVEL: 'info' }, /HOOKLADDER_LOGLEVEL is not known/],
    [
      'no word on encryption',
      { HOOKLADDER_ENCRYPTION_KEYS: '' },
      /no key to encrypt payloads with.*HOOKLADDER_ENCRYPTION=off/,
    ],
    ['no Temporal at the address', { TEMPORAL_ADDRESS: '127.0.0.1:1' }, /TEMPORAL_ADDRESS 127\.0\.0\.1:1/],
    ['a namespace that does not exist', { TEMPORAL_NAMESPACE: 'nope' }, /TEMPORAL_NAMESPACE nope/],
  ])('%s', async (_, environment, says) => {
    const { code, output } = await end(environment);
    expect(code).toBe(1);
    expect(output).toMatch(says);
    expect(output).not.toMatch(/^\s+at /m);
  });
});
