import { generateKeyPairSync } from 'node:crypto';
import { isIP } from 'node:net';
import type { TlsOptions } from 'node:tls';
import forge from 'node-forge';

const DAY_MS = 86_400_000;

const keyOf = (bits: number): string =>
  generateKeyPairSync('rsa', {
    modulusLength: bits,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  }).privateKey;
// One key for all but the weak: only the certificates differ.
const key = keyOf(2048);
const privateKey = forge.pki.privateKeyFromPem(key);
const publicOf = (pem: string) => {
  const { n, e } = forge.pki.privateKeyFromPem(pem);
  return forge.pki.setRsaPublicKey(n, e);
};
let serial = 1;

/** What a certificate says. */
export interface CertificateOptions {
  /** Host names and addresses that it is for. */
  readonly hosts?: readonly string[];
  /** Days from now, negative for the past. */
  readonly fromDay?: number;
  readonly untilDay?: number;
  /** Its extended key usage. */
  readonly usage?: 'serverAuth' | 'clientAuth';
  /** Of its key. */
  readonly bits?: number;
  readonly digest?: 'sha256' | 'sha1';
}

/** An authority that issues certificates. */
export interface Authority {
  /** Its own certificate. */
  readonly pem: string;
  /** Key and certificate of a server; what follows the certificate in the chain is `more`. */
  server(options: CertificateOptions, more?: readonly string[]): TlsOptions;
  intermediate(name: string): Authority;
}

/** A root of its own, which nobody trusts unless told to. */
export function createAuthority(name: string): Authority {
  return authority(name, name);
}

/** Key and certificate of a server that vouches for itself. */
export function selfSigned(options: CertificateOptions): TlsOptions {
  return { key, cert: certificate({ ...options, name: 'self', issuer: 'self', isAuthority: false }) };
}

function authority(name: string, issuer: string): Authority {
  const pem = certificate({ name, issuer, isAuthority: true });
  return {
    pem,
    server: (options, more = []) => {
      const own = options.bits === undefined ? key : keyOf(options.bits);
      const about = { ...options, name: 'server', issuer: name, isAuthority: false };
      return { key: own, cert: [certificate(about, own), ...more].join('') };
    },
    intermediate: (subordinate) => authority(subordinate, name),
  };
}

function certificate(
  {
    name,
    issuer,
    isAuthority,
    hosts = [],
    fromDay = -1,
    untilDay = 30,
    usage,
    digest = 'sha256',
  }: CertificateOptions & { name: string; issuer: string; isAuthority: boolean },
  ofKey = key,
): string {
  const made = forge.pki.createCertificate();
  made.publicKey = publicOf(ofKey);
  made.serialNumber = (serial++).toString(16).padStart(4, '0');
  made.validity.notBefore = new Date(Date.now() + fromDay * DAY_MS);
  made.validity.notAfter = new Date(Date.now() + untilDay * DAY_MS);
  made.setSubject([{ name: 'commonName', value: name }]);
  made.setIssuer([{ name: 'commonName', value: issuer }]);
  made.setExtensions([
    { name: 'basicConstraints', cA: isAuthority, critical: true },
    ...(isAuthority ? [{ name: 'keyUsage', keyCertSign: true, critical: true }] : []),
    ...(usage === undefined ? [] : [{ name: 'extKeyUsage', [usage]: true }]),
    ...(hosts.length === 0
      ? []
      : [
          {
            name: 'subjectAltName',
            altNames: hosts.map((host) =>
              isIP(host) === 0 ? { type: 2, value: host } : { type: 7, ip: host },
            ),
          },
        ]),
  ]);
  made.sign(privateKey, forge.md[digest].create());
  return forge.pki.certificateToPem(made);
}
