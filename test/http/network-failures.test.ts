import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { isOwnFault, networkFailure } from '../../src/http/network-failures.ts';
import type { Phase } from '../../src/policy/verdicts.ts';

describe('R6 what is not the other side', () => {
  const error = (code: string, address = '192.0.2.1') => Object.assign(new Error(code), { code, address });

  test.each(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EPERM', 'EACCES', 'EADDRNOTAVAIL'])(
    '%s is ours',
    (code) => {
      expect(isOwnFault(error(code))).toBe(true);
    },
  );

  test.each([
    ['EADDRNOTAVAIL', '2001:db8::1', 'unreachable'],
    ['ENETUNREACH', '2001:db8::1', 'unreachable'],
    ['EHOSTUNREACH', '192.0.2.1', 'unreachable'],
    ['ETIMEDOUT', '192.0.2.1', 'connect-timeout'],
  ])('%s of %s is not: %s', (code, address, expected) => {
    expect(isOwnFault(error(code, address))).toBe(false);
    expect(networkFailure(error(code, address), 'connect').code).toBe(expected);
  });
});

describe('R2 R90 each failure', () => {
  const phases: Phase[] = ['dns', 'connect', 'tls', 'firstByte'];
  const sourceOf = async () => await readFile('src/http/network-failures.ts', 'utf8');

  test('has a code that the documentation knows', async () => {
    const docs = await readFile('docs/http-edge.md', 'utf8');
    const codes = [...(await sourceOf()).matchAll(/code: '([a-z-]+)'/g)].map(([, code]) => code);
    expect(codes.length).toBeGreaterThan(15);
    expect(codes.filter((code) => !docs.includes(`| \`${code}\` `))).toEqual([]);
  });

  test('has a message and a hint that leave room in 400 bytes of history', async () => {
    const known = [...(await sourceOf()).matchAll(/'((?:E|UND_|ERR_|CERT_|UNABLE_|SELF_|DEPTH_)[A-Z_]+)'/g)];
    expect(known.length).toBeGreaterThan(30);
    for (const [, code] of [...known, [undefined, 'ESOMETHING'] as const]) {
      for (const phase of phases) {
        const failure = networkFailure(Object.assign(new Error(code), { code }), phase);
        expect(failure.message.length).toBeGreaterThan(10);
        expect(failure.hint).toMatch(/\.$/);
        expect(Buffer.byteLength(JSON.stringify(failure))).toBeLessThan(320);
      }
    }
  });
});
