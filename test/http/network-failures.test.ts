import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { isOwnFault, mostTelling, networkFailure } from '../../src/http/network-failures.ts';
import type { Phase } from '../../src/policy/verdicts.ts';

describe('R6 what is not the other side', () => {
  const error = (code: string, address = '192.0.2.1') => Object.assign(new Error(code), { code, address });
  const machine = (address: string, family: 'IPv4' | 'IPv6') => () => ({
    eth0: [{ address, family, internal: false, netmask: '', mac: '', cidr: null, scopeid: 0 }],
  });
  const both = () => ({
    eth0: [...machine('198.51.100.1', 'IPv4')().eth0, ...machine('2001:db8::9', 'IPv6')().eth0] as never,
  });
  const onlyIpv4 = () => ({
    eth0: [...machine('198.51.100.1', 'IPv4')().eth0, ...machine('fe80::9', 'IPv6')().eth0] as never,
  });

  test.each(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EPERM', 'EACCES', 'EADDRNOTAVAIL'])(
    '%s is ours',
    (code) => {
      expect(isOwnFault(error(code), 'connect')).toBe(true);
    },
  );

  test.each(['ECONNREFUSED', 'EFILE', 'ENOMEM', 'EMFILE', 'ENOTINITIALIZED', 'EDESTRUCTION', 'ENOSERVER'])(
    'E8 %s of a name lookup is ours',
    (code) => {
      expect(isOwnFault(Object.assign(new Error(code), { code }), 'dns')).toBe(true);
    },
  );

  test.each(['ENOTFOUND', 'ENODATA', 'ESERVFAIL', 'EREFUSED', 'ETIMEOUT', 'ECANCELLED'])(
    'E8 %s of a name lookup is not',
    (code) => {
      expect(isOwnFault(Object.assign(new Error(code), { code }), 'dns')).toBe(false);
    },
  );

  test.each([
    ['EACCES', '2001:db8::1', 'unreachable'],
    ['ENETUNREACH', '2001:db8::1', 'unreachable'],
    ['ENETUNREACH', '192.0.2.1', 'unreachable'],
    ['EHOSTUNREACH', '192.0.2.1', 'unreachable'],
    ['ECONNREFUSED', '192.0.2.1', 'connect-refused'],
    ['ETIMEDOUT', '192.0.2.1', 'connect-timeout'],
  ])('%s of %s is not: %s', (code, address, expected) => {
    expect(isOwnFault(error(code, address), 'connect', both)).toBe(false);
    expect(networkFailure(error(code, address), 'connect').code).toBe(expected);
  });

  test('E10 no route to IPv6 is ours on a machine without IPv6, and to IPv4 on one without IPv4', () => {
    expect(isOwnFault(error('ENETUNREACH', '2001:db8::1'), 'connect', onlyIpv4)).toBe(true);
    expect(isOwnFault(error('EADDRNOTAVAIL', '2001:db8::1'), 'connect', onlyIpv4)).toBe(true);
    expect(isOwnFault(error('ENETUNREACH'), 'connect', onlyIpv4)).toBe(false);
    expect(isOwnFault(error('ENETUNREACH'), 'connect', machine('2001:db8::9', 'IPv6') as never)).toBe(true);
  });

  test.each([
    [['EHOSTUNREACH', 'ECONNREFUSED'], 'ECONNREFUSED'],
    [['EPERM', 'EHOSTUNREACH', 'EMFILE'], 'EHOSTUNREACH'],
    [['EPERM', 'EMFILE'], 'EPERM'],
    [['ETIMEDOUT', 'ECONNREFUSED'], 'ETIMEDOUT'],
    [['EADDRNOTAVAIL', 'ECONNREFUSED'], 'ECONNREFUSED'],
  ])('E10 of %j the most telling is %s', (codes, expected) => {
    expect(mostTelling(codes.map((code) => error(code)))).toMatchObject({ code: expected });
  });

  test('E10 of two alike the first address is told', () => {
    const alike = [error('ECONNREFUSED', '192.0.2.1'), error('ECONNREFUSED', '192.0.2.2')];
    expect(mostTelling(alike)).toBe(alike[0]);
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
