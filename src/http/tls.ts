import { X509Certificate } from 'node:crypto';
import { isIP, type Socket } from 'node:net';
import {
  connect,
  createSecureContext,
  getCACertificates,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import { clientCertificateWanted, ClosedBeforeUse } from './network-failures.ts';

/**
 * The certificates of a PEM file, one by one.
 * @throws TypeError that says what is wrong with the file.
 */
export function certificatesOf(pem: string): string[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) throw new TypeError('has no certificates: it must be in PEM');
  return blocks.map((block, index) => {
    try {
      return new X509Certificate(block).toString();
    } catch (error) {
      throw new TypeError(`certificate ${index + 1} cannot be read`, { cause: error });
    }
  });
}

/** Shared by all who have no certificates of their own: making one parses several hundred. */
let usual: SecureContext | undefined;

/**
 * Whom we trust to name a server: the roots of Node and of the operating system, and certificates of one's own.
 * @param own - in PEM.
 */
export function trusted(own: readonly string[] = []): SecureContext {
  return own.length === 0 ? (usual ??= contextOf([])) : contextOf(own);
}

function contextOf(own: readonly string[]): SecureContext {
  const ca = new Set([...getCACertificates('default'), ...getCACertificates('system'), ...own]);
  return createSecureContext({ ca: [...ca], minVersion: 'TLSv1.2' });
}

/**
 * TLS over a connection, to a server whose certificate names the host and leads to a trusted root. There is no way
 * to do without.
 * @throws errors of OpenSSL, `ExchangeFailed` if it wants a client certificate, or the signal's reason.
 */
export async function secured(
  socket: Socket,
  host: string,
  trust: SecureContext,
  signal: AbortSignal,
): Promise<TLSSocket> {
  const name = host.replace(/\.$/, '');
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  const tls = connect({
    socket,
    host: name,
    // RFC 6066: an address is no server name.
    servername: isIP(name) === 0 ? name : '',
    secureContext: trust,
    ALPNProtocols: ['http/1.1'],
    rejectUnauthorized: true,
  });
  const abort = () => reject(signal.reason as Error);
  signal.addEventListener('abort', abort);
  tls.once('secureConnect', () => resolve(tls));
  tls.on('error', (error) => {
    const isCertified = tls.getPeerX509Certificate() !== undefined;
    reject((isCertified ? clientCertificateWanted(error) : undefined) ?? error);
  });
  tls.once('close', () => reject(new ClosedBeforeUse()));
  try {
    return await promise;
  } catch (error) {
    tls.destroy();
    socket.destroy();
    throw error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
