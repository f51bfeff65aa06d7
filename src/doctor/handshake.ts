import type { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { connect, type SecureContext, type TLSSocket } from 'node:tls';
import type { Connector } from '../http/connector.ts';
import { hostOf, portOf } from '../http/origin.ts';
import { Trace } from '../http/trace.ts';

/** A TLS handshake, whether its certificate is good or not. Nothing was sent over it. */
export interface Handshake {
  readonly protocol: string;
  readonly cipher: string;
  /** From the server's own certificate towards the root, as far as it is known. */
  readonly chain: readonly CertificateFacts[];
  /** Host names and addresses that the certificate is for. */
  readonly names: readonly string[];
}

export interface CertificateFacts {
  readonly subject: string;
  readonly issuer: string;
  readonly from: Date;
  readonly until: Date;
}

const CHAIN_AT_MOST = 6;

/** @throws errors of sockets and TLS, or the signal's reason. */
export async function shakeHands(
  connector: Pick<Connector, 'open'>,
  url: URL,
  trust: SecureContext,
  withinMs: number,
): Promise<Handshake> {
  const signal = AbortSignal.timeout(withinMs);
  const host = hostOf(url).replace(/\.$/, '');
  // Without TLS, since this one also has to look at certificates that are not good.
  const plain = new URL(`http://${url.hostname}:${portOf(url)}/`);
  const { socket } = await connector.open(plain, new Trace(), signal);
  const tls = connect({
    socket,
    host,
    servername: isIP(host) === 0 ? host : '',
    secureContext: trust,
    ALPNProtocols: ['http/1.1'],
    rejectUnauthorized: false,
  });
  try {
    return await new Promise<Handshake>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error));
      tls.once('secureConnect', () => resolve(factsOf(tls)));
      tls.on('error', reject);
      tls.once('close', () => reject(new Error('the connection was closed')));
    });
  } finally {
    tls.destroy();
    socket.destroy();
  }
}

function factsOf(tls: TLSSocket): Handshake {
  const own = tls.getPeerX509Certificate();
  const chain: X509Certificate[] = [];
  for (let each = own; each !== undefined && chain.length < CHAIN_AT_MOST; each = each.issuerCertificate) {
    if (chain.some(({ fingerprint256 }) => fingerprint256 === each?.fingerprint256)) break;
    chain.push(each);
  }
  return {
    protocol: tls.getProtocol() ?? 'unknown',
    cipher: tls.getCipher().standardName,
    chain: chain.map(({ subject, issuer, validFrom, validTo }) => ({
      subject: commonName(subject),
      issuer: commonName(issuer),
      from: new Date(validFrom),
      until: new Date(validTo),
    })),
    names: (own?.subjectAltName ?? '').split(', ').map((name) => name.replace(/^(?:DNS|IP Address):/, '')),
  };
}

function commonName(distinguished: string): string {
  return /^CN=(.+)$/m.exec(distinguished)?.[1] ?? distinguished.replaceAll('\n', ', ');
}
