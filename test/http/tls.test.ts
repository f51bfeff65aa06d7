import { createServer, type AddressInfo, type Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createAuthority, selfSigned, type CertificateOptions } from '../support/certificates.ts';
import { nameServer, ok, postTo, receiver, senderFor } from '../support/posting.ts';

const HOST = 'shop.example';
const root = createAuthority('test root');
const intermediate = root.intermediate('test intermediate');
const stranger = createAuthority('unknown root');

async function postOverTls(tls: TlsOptions, trusted: readonly string[] = [root.pem]) {
  const server = await receiver(ok, { tls });
  const dns = await nameServer(() => ({ ipv4: ['127.0.0.1'] }));
  const sender = senderFor({ trustedCertificates: trusted, nameServers: [dns.address] });
  const verdict = await postTo(`https://${HOST}:${server.port}/`, { sender });
  return { verdict, requests: server.requests() };
}

describe('E9 R2 a certificate that does not prove the host', () => {
  test.each<[string, string, TlsOptions]>([
    ['expired', 'tls-expired', root.server({ hosts: [HOST], fromDay: -9, untilDay: -1 })],
    ['of tomorrow', 'tls-not-yet-valid', root.server({ hosts: [HOST], fromDay: 1 })],
    ['self-signed', 'tls-self-signed', selfSigned({ hosts: [HOST] })],
    ['for another name', 'tls-name-mismatch', root.server({ hosts: ['other.example'] })],
    ['from an unknown authority', 'tls-untrusted', stranger.server({ hosts: [HOST] }, [stranger.pem])],
    ['without its intermediate', 'tls-incomplete-chain', intermediate.server({ hosts: [HOST] })],
  ])('%s: %s', async (_, code, tls) => {
    const { verdict, requests } = await postOverTls(tls);
    expect(verdict).toMatchObject({
      kind: 'network',
      code,
      message: expect.any(String),
      hint: expect.any(String),
      address: '127.0.0.1',
      timings: { dnsMs: expect.any(Number), connectMs: expect.any(Number), tlsMs: expect.any(Number) },
    });
    expect(requests).toBe(0);
  });

  test('and one with its intermediate, from a root in the bundle: delivered', async () => {
    const { verdict } = await postOverTls(intermediate.server({ hosts: [HOST] }, [intermediate.pem]));
    expect(verdict).toMatchObject({ kind: 'delivered', status: 200 });
  });

  test('NODE_TLS_REJECT_UNAUTHORIZED changes nothing', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    onTestFinished(() => {
      vi.unstubAllEnvs();
    });
    const { verdict, requests } = await postOverTls(selfSigned({ hosts: [HOST] }));
    expect(verdict).toMatchObject({ kind: 'network', code: 'tls-self-signed' });
    expect(requests).toBe(0);
  });
});

describe('E9 R2 no TLS that we speak', () => {
  test('only TLS 1.1: tls-too-old', async () => {
    const old: TlsOptions = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' };
    const { verdict } = await postOverTls({ ...root.server({ hosts: [HOST] }), ...old });
    expect(verdict).toMatchObject({ kind: 'network', code: 'tls-too-old', hint: expect.any(String) });
  });

  test('exactly TLS 1.2: delivered', async () => {
    const { verdict } = await postOverTls({ ...root.server({ hosts: [HOST] }), maxVersion: 'TLSv1.2' });
    expect(verdict).toMatchObject({ kind: 'delivered' });
  });

  test.each<[string, string, (socket: Socket) => void]>([
    [
      'plain HTTP that answers',
      'tls-plain-text',
      (socket) => socket.on('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')),
    ],
    ['a server that talks first', 'tls-plain-text', (socket) => socket.write('220 smtp.example ESMTP\r\n')],
    ['a server that hangs up', 'tls-protocol', (socket) => socket.end()],
    ['a server that resets', 'tls-protocol', (socket) => socket.on('data', () => socket.resetAndDestroy())],
    ['silence', 'tls-timeout', () => undefined],
  ])('%s: %s', async (_, code, serve) => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      serve(socket);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const timeoutMs = code === 'tls-timeout' ? 500 : 10_000;
    expect(await postTo(`https://127.0.0.1:${port}/`, { timeoutMs })).toMatchObject({
      kind: 'network',
      code,
      hint: expect.any(String),
      timings: { tlsMs: expect.any(Number) },
    });
  });
});

describe('E9 R2 a server that wants what we do not have says so in the hint', () => {
  const server = () => root.server({ hosts: [HOST] });
  const mutual = () => ({ ...server(), requestCert: true, rejectUnauthorized: true, ca: [root.pem] });

  test.each<[string, string, RegExp, () => TlsOptions]>([
    ['a client certificate, TLS 1.3', 'tls-client-certificate', /client certificate/, mutual],
    [
      'a client certificate, TLS 1.2',
      'tls-client-certificate',
      /client certificate/,
      () => ({ ...mutual(), maxVersion: 'TLSv1.2' }),
    ],
    ['HTTP/2', 'tls-alpn', /offer HTTP\/1\.1/, () => ({ ...server(), ALPNProtocols: ['h2'] })],
    [
      'other ciphers',
      'tls-protocol',
      /TLS 1\.2/,
      () => ({ ...server(), maxVersion: 'TLSv1.2', ciphers: 'NULL-SHA256:@SECLEVEL=0' }),
    ],
  ])('%s: %s', async (_, code, hint, tls) => {
    const { verdict, requests } = await postOverTls(tls());
    expect(verdict).toMatchObject({ kind: 'network', code, hint: expect.stringMatching(hint) });
    expect(requests).toBe(0);
  });
});

describe('E9 R2 a certificate that is trusted and unfit', () => {
  test.each<[string, string, RegExp, CertificateOptions]>([
    ['for clients only', 'tls-wrong-purpose', /for servers/, { usage: 'clientAuth' }],
    ['with a weak key', 'tls-weak-certificate', /2048 bits/, { bits: 1024 }],
    ['with a weak signature', 'tls-weak-certificate', /SHA-256/, { digest: 'sha1' }],
  ])('%s: %s', async (_, code, hint, options) => {
    const tls = { ...root.server({ hosts: [HOST], ...options }), ciphers: 'DEFAULT@SECLEVEL=0' };
    const { verdict, requests } = await postOverTls(tls);
    expect(verdict).toMatchObject({ kind: 'network', code, hint: expect.stringMatching(hint) });
    expect(verdict).not.toMatchObject({ hint: expect.stringContaining('public') });
    expect(requests).toBe(0);
  });
});

describe('R2 whom a certificate is for', () => {
  test.each([
    ['an address', '127.0.0.1', '127.0.0.1'],
    ['a name with a dot at its end', `${HOST}.`, HOST],
  ])('%s', async (_, host, certified) => {
    const server = await receiver(ok, { tls: root.server({ hosts: [certified] }) });
    const dns = await nameServer(() => ({ ipv4: ['127.0.0.1'] }));
    const sender = senderFor({ trustedCertificates: [root.pem], nameServers: [dns.address] });
    const url = `https://${host}:${server.port}/`;
    expect(await postTo(url, { sender })).toMatchObject({ kind: 'delivered' });
    expect((await postTo(url, { sender })).timings).toEqual({
      firstByteMs: expect.any(Number),
      reused: true,
    });
  });
});
