import { isIPv4 } from 'node:net';
import { errors } from 'undici';
import type { Phase } from '../policy/verdicts.ts';

/** An exchange that brought no answer, in a stable code and two sentences. */
export interface NetworkFailure {
  readonly code: string;
  /** For an operator. */
  readonly message: string;
  /** For the merchant. */
  readonly hint: string;
}

/** R6: nothing was sent, and the endpoint is not to blame. */
export class SendingFault extends Error {
  override readonly name = 'SendingFault';
}

/** R3: all addresses of the host are refused by the address guard. */
export class AddressBlocked extends Error {
  override readonly name = 'AddressBlocked';
}

/** The connection was closed before anything was written to it. */
export class ClosedBeforeUse extends Error {
  override readonly name = 'ClosedBeforeUse';
  readonly code = 'ECONNRESET';
}

/** A failure that is told by something else than an error of Node, OpenSSL or undici. */
export class ExchangeFailed extends Error {
  override readonly name = 'ExchangeFailed';
  readonly failure: NetworkFailure;
  constructor(failure: NetworkFailure) {
    super(failure.message);
    this.failure = failure;
  }
}

const checkDns =
  "Your webhook address's host name could not be looked up. Check your DNS servers and records.";
const checkServer =
  'Nothing answers at your webhook address. Check that your server runs and that its firewall lets us in on this port.';
const checkChain =
  'Install the full certificate chain (certificate and intermediates) of a public certificate authority.';
const checkTls = 'Your server must speak HTTPS with TLS 1.2 or newer at your webhook address.';
const checkProtocol = 'Your server must answer with HTTP/1.1 at your webhook address.';
const answerSooner = 'Answer with 2xx at once, and process the webhook afterwards.';

const notFound = (message: string): NetworkFailure => ({
  code: 'dns-not-found',
  message,
  hint: 'The host name of your webhook address does not exist. Check its spelling and that its domain is registered.',
});
const dnsFailed = (message: string): NetworkFailure => ({ code: 'dns-failed', message, hint: checkDns });
const unreachable: NetworkFailure = {
  code: 'unreachable',
  message: 'there is no route to the address',
  hint: checkServer,
};
const connectTimeout: NetworkFailure = {
  code: 'connect-timeout',
  message: 'no address accepted a connection in time',
  hint: checkServer,
};
const untrusted: NetworkFailure = {
  code: 'tls-untrusted',
  message: 'the certificate was issued by an authority that is not trusted',
  hint: `Your certificate is not from a public certificate authority. ${checkChain}`,
};
const malformed = (message: string): NetworkFailure => ({
  code: 'malformed-response',
  message,
  hint: checkProtocol,
});
const lost = (message: string): NetworkFailure => ({
  code: 'reset',
  message,
  hint: 'Your server closed the connection without an answer. Check its error log and any proxy in front of it.',
});

/** By the codes of `node:dns`. */
const dnsFailures = new Map<string, NetworkFailure>([
  ['ENOTFOUND', notFound('the host name does not exist')],
  ['EBADNAME', notFound('the host name is none that DNS knows')],
  ['ENODATA', dnsFailed('the host name has no address (empty answer)')],
  ['ESERVFAIL', dnsFailed('the name servers report a failure (SERVFAIL)')],
  ['EREFUSED', dnsFailed('the name servers refuse to answer (REFUSED)')],
  ['ETIMEOUT', dnsFailed('the name servers are silent')],
  ['ECANCELLED', dnsFailed('the name servers are silent')],
  ['ECONNREFUSED', dnsFailed('no name server can be reached')],
]);

/** By the codes of Node's sockets. */
const connectFailures = new Map<string, NetworkFailure>([
  ['ECONNREFUSED', { code: 'connect-refused', message: 'nothing listens at the address', hint: checkServer }],
  ['ETIMEDOUT', connectTimeout],
  ['EHOSTUNREACH', unreachable],
  ['ENETUNREACH', unreachable],
  ['EADDRNOTAVAIL', unreachable],
]);

/** By the codes of OpenSSL, as Node names them. */
const tlsFailures = new Map<string, NetworkFailure>([
  [
    'CERT_HAS_EXPIRED',
    { code: 'tls-expired', message: 'the certificate has expired', hint: 'Renew your certificate.' },
  ],
  [
    'CERT_NOT_YET_VALID',
    {
      code: 'tls-not-yet-valid',
      message: 'the certificate is not valid yet',
      hint: 'Your certificate is not valid yet. Install one that is, and check the clock of the machine that made it.',
    },
  ],
  [
    'DEPTH_ZERO_SELF_SIGNED_CERT',
    {
      code: 'tls-self-signed',
      message: 'the certificate is self-signed',
      hint: `Your certificate is self-signed. ${checkChain}`,
    },
  ],
  ['SELF_SIGNED_CERT_IN_CHAIN', untrusted],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', untrusted],
  [
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    {
      code: 'tls-incomplete-chain',
      message: 'the server sends its certificate without the intermediates that lead to a trusted authority',
      hint: `Your server sends its certificate alone. ${checkChain}`,
    },
  ],
  [
    'ERR_TLS_CERT_ALTNAME_INVALID',
    {
      code: 'tls-name-mismatch',
      message: 'the certificate is for another host name',
      hint: 'Install a certificate for the host name of your webhook address.',
    },
  ],
  [
    'ERR_SSL_WRONG_VERSION_NUMBER',
    {
      code: 'tls-plain-text',
      message: 'the server does not speak TLS: is it plain HTTP on this port?',
      hint: checkTls,
    },
  ],
  ...['ERR_SSL_UNSUPPORTED_PROTOCOL', 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION'].map(
    (code): [string, NetworkFailure] => [
      code,
      { code: 'tls-too-old', message: 'the server offers only TLS older than 1.2', hint: checkTls },
    ],
  ),
]);

/** Faults of this machine: it has no sockets, ports or memory left, or its own firewall forbids the connection. */
const ownFaults = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EPERM', 'EACCES']);

/** Whether an error of a socket is this machine's own (R6). */
export function isOwnFault(error: unknown): boolean {
  const code = codeOf(error);
  // Without IPv6 its addresses are like that too; else all ports are taken.
  const noPort = code === 'EADDRNOTAVAIL' && error instanceof Error && 'address' in error;
  return ownFaults.has(code) || (noPort && isIPv4(String(error.address)));
}

/** Names the failure of an exchange that brought no answer, by its error and the phase it stood in. */
export function networkFailure(error: unknown, phase: Phase | undefined): NetworkFailure {
  if (error instanceof ExchangeFailed) return error.failure;
  const code = codeOf(error);
  switch (phase) {
    case 'dns':
      return dnsFailures.get(code) ?? dnsFailed(`the name lookup failed (${code})`);
    case 'tls':
      return tlsFailures.get(code) ?? tlsFailed(error, code);
    case 'firstByte':
      return answerFailed(error, code);
    case 'connect':
    case 'proxy':
    case undefined:
      return connectFailures.get(code) ?? lost(`the connection could not be opened (${code})`);
  }
}

/** Names the failure of an exchange whose deadline passed before the request was written; `undefined` after that. */
export function lateFailure(phase: Phase | undefined): NetworkFailure | undefined {
  switch (phase) {
    case 'dns':
      return dnsFailed('the name servers are silent');
    case 'connect':
    case 'proxy':
      return connectTimeout;
    case 'tls':
      return { code: 'tls-timeout', message: 'the TLS handshake did not end in time', hint: checkTls };
    case 'firstByte':
    case undefined:
      return undefined;
  }
}

/** R5: the request was written, and no response headers came in time. */
export function noAnswer(timeoutMs: number): NetworkFailure {
  return {
    code: 'timeout',
    message: `no response headers within ${timeoutMs / 1_000} s`,
    hint: `Your server did not answer within ${timeoutMs / 1_000} s. ${answerSooner}`,
  };
}

/** A proxy that works and cannot reach the target. */
export function notReachedByProxy(status: number): NetworkFailure {
  const failure = status === 504 ? connectTimeout : unreachable;
  return { ...failure, message: `${failure.message} (the egress proxy says HTTP ${status})` };
}

/** R2: a status that is none. */
export function notAStatus(status: number): NetworkFailure {
  return malformed(`the status ${status} is none that HTTP knows`);
}

/** R3. */
export function blocked(reason: string): NetworkFailure {
  return {
    code: 'address-blocked',
    message: reason,
    hint: 'Your webhook address leads to a machine that is not on the public internet. Give a public one.',
  };
}

function tlsFailed(error: unknown, code: string): NetworkFailure {
  const isVerification = error instanceof Error && /certificate|CERT/.test(`${error.message} ${code}`);
  if (isVerification && !code.startsWith('ERR_SSL_')) {
    return { ...untrusted, message: `the certificate cannot be verified (${code})` };
  }
  const why = code === 'ECONNRESET' ? 'the server closed the connection' : code;
  return { code: 'tls-protocol', message: `the TLS handshake failed (${why})`, hint: checkTls };
}

function answerFailed(error: unknown, code: string): NetworkFailure {
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return malformed('the response headers are too large');
  if (isNotHttp(error)) return malformed('the answer is not HTTP that can be read');
  if (code === 'ETIMEDOUT') return lost('the connection broke down before an answer came');
  return lost('the connection was closed before an answer came');
}

/** A parser error, a status 101 that nobody asked for, or a status line that undici's own assertions stumble over. */
function isNotHttp(error: unknown): boolean {
  if (error instanceof errors.HTTPParserError) return true;
  if (!(error instanceof Error)) return false;
  return (
    error.message === 'bad upgrade' || error.message === 'bad response' || codeOf(error) === 'ERR_ASSERTION'
  );
}

function codeOf(error: unknown): string {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  return 'unknown';
}
