import { errors } from 'undici';

/** A failed exchange without an answer, by a stable code and a sentence for an operator. */
export interface NetworkFailure {
  readonly code: string;
  readonly message: string;
}

const certificateUntrusted =
  'the certificate is not trusted: self-signed, unknown issuer or missing intermediate';
const connectionLost = 'the connection was closed before an answer came';

/** By the error codes of Node, OpenSSL and undici. */
const failures = new Map<string, NetworkFailure>([
  ['ENOTFOUND', { code: 'dns-not-found', message: 'the host name does not exist' }],
  ['EAI_AGAIN', { code: 'dns-failed', message: 'the name server did not answer' }],
  ['ECONNREFUSED', { code: 'connect-refused', message: 'nothing listens at the address' }],
  ['ETIMEDOUT', { code: 'connect-timeout', message: 'the address did not accept a connection in time' }],
  ['EHOSTUNREACH', { code: 'unreachable', message: 'there is no route to the host' }],
  ['ENETUNREACH', { code: 'unreachable', message: 'there is no route to the network' }],
  ['ECONNRESET', { code: 'reset', message: connectionLost }],
  ['EPIPE', { code: 'reset', message: connectionLost }],
  ['UND_ERR_SOCKET', { code: 'reset', message: connectionLost }],
  ['UND_ERR_HEADERS_OVERFLOW', { code: 'malformed-response', message: 'the response headers are too large' }],
  ['CERT_HAS_EXPIRED', { code: 'tls-expired', message: 'the certificate has expired' }],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', { code: 'tls-untrusted', message: certificateUntrusted }],
  ['SELF_SIGNED_CERT_IN_CHAIN', { code: 'tls-untrusted', message: certificateUntrusted }],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', { code: 'tls-untrusted', message: certificateUntrusted }],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', { code: 'tls-untrusted', message: certificateUntrusted }],
  [
    'ERR_TLS_CERT_ALTNAME_INVALID',
    { code: 'tls-name-mismatch', message: 'the certificate is for another host name' },
  ],
  ['EPROTO', { code: 'tls-protocol', message: 'no TLS handshake: is it HTTPS with TLS 1.2 or newer?' }],
]);

/** Names the failure of an exchange that brought no answer. */
export function networkFailure(error: unknown): NetworkFailure {
  if (isNotHttp(error)) {
    return { code: 'malformed-response', message: 'the answer is not HTTP that can be read' };
  }
  const code = codeOf(error);
  const known = failures.get(code);
  if (known !== undefined) return known;
  if (code.startsWith('ERR_SSL_'))
    return { code: 'tls-protocol', message: `the TLS handshake failed (${code})` };
  return { code: 'network-error', message: `the exchange failed (${code})` };
}

/** A failed connection to several addresses carries one error for each: the first speaks for all. */
function codeOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  return 'unknown';
}

/** A parser error, a status 101 that nobody asked for, or a status line that undici's own assertions stumble over. */
function isNotHttp(error: unknown): boolean {
  if (error instanceof errors.HTTPParserError) return true;
  if (!(error instanceof Error)) return false;
  return error.message === 'bad upgrade' || codeOf(error) === 'ERR_ASSERTION';
}
