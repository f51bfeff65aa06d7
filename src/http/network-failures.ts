import { isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
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
const clientCertificate: NetworkFailure = {
  code: 'tls-client-certificate',
  message: 'the server wants a client certificate',
  hint: 'Your server asks for a client certificate, and we have none. Do not require one at your webhook address.',
};
const noHttp1: NetworkFailure = {
  code: 'tls-alpn',
  message: 'the server does not offer HTTP/1.1 in its TLS handshake (ALPN)',
  hint: 'Your server must offer HTTP/1.1 at your webhook address, not only HTTP/2.',
};
const wrongPurpose: NetworkFailure = {
  code: 'tls-wrong-purpose',
  message: 'the certificate is not for servers, by its extended key usage',
  hint: 'Your certificate is not meant for servers. Install one for server authentication.',
};
const weak = (what: string): NetworkFailure => ({
  code: 'tls-weak-certificate',
  message: `${what} of a certificate in the chain is too weak`,
  hint: 'Install a certificate with a key of at least 2048 bits (RSA) or 256 bits (ECDSA), signed with SHA-256 or better.',
});
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
]);

/** By the codes of Node's sockets. */
const connectFailures = new Map<string, NetworkFailure>([
  ['ECONNREFUSED', { code: 'connect-refused', message: 'nothing listens at the address', hint: checkServer }],
  ['ETIMEDOUT', connectTimeout],
  ['EHOSTUNREACH', unreachable],
  ['ENETUNREACH', unreachable],
  ['EACCES', unreachable],
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
  ['INVALID_PURPOSE', wrongPurpose],
  ['ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL', noHttp1],
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
const ownFaults = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EPERM', 'EACCES', 'EADDRNOTAVAIL']);
/** Of c-ares: it has no socket, memory or settings, or no name server of ours can be reached. */
const ownDnsFaults = new Set([
  'ECONNREFUSED',
  'EFILE',
  'ENOMEM',
  'ENOTINITIALIZED',
  'EDESTRUCTION',
  'ENOSERVER',
]);

/** Whether an error before the request is written is this machine's own (R6). */
export function isOwnFault(
  error: unknown,
  phase: Phase | undefined,
  interfaces: Interfaces = networkInterfaces,
): boolean {
  const code = codeOf(error);
  if (phase === 'dns') return ownFaults.has(code) || ownDnsFaults.has(code);
  if (!(error instanceof Error) || !('address' in error)) return ownFaults.has(code);
  const toIpv6 = isIPv6(String(error.address));
  // Linux makes it of a router that says "administratively prohibited" by ICMPv6.
  if (code === 'EACCES' && toIpv6) return false;
  // Without addresses of that kind there is no route to any; else a router on the way may have said so.
  if (code === 'ENETUNREACH') return !hasAddress(interfaces, toIpv6 ? 'IPv6' : 'IPv4');
  return ownFaults.has(code);
}

type Interfaces = typeof networkInterfaces;

function hasAddress(interfaces: Interfaces, family: 'IPv4' | 'IPv6'): boolean {
  return Object.values(interfaces()).some((all) =>
    all?.some((each) => each.family === family && !each.internal && !each.address.startsWith('fe80:')),
  );
}

/** Of the errors of several addresses, in their order, the one that tells most. */
export function mostTelling(all: readonly Error[]): Error | undefined {
  return all.toSorted((a, b) => rank(a) - rank(b))[0];
}

function rank(error: Error): number {
  if (isOwnFault(error, 'connect')) return 2;
  return connectFailures.get(codeOf(error)) === unreachable ? 1 : 0;
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

/** R4: more 1xx than anybody means in earnest. */
export function tooManyInterim(): NetworkFailure {
  return malformed('there are too many interim responses (1xx) before the answer');
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

/**
 * What a server means by an alert that it sends after its own certificate: it wants one of ours. `undefined` for other
 * errors.
 */
export function clientCertificateWanted(error: unknown): ExchangeFailed | undefined {
  const isAlert = /_ALERT_(?:CERTIFICATE_REQUIRED|BAD_CERTIFICATE|HANDSHAKE_FAILURE)$/.test(codeOf(error));
  return isAlert ? new ExchangeFailed(clientCertificate) : undefined;
}

function tlsFailed(error: unknown, code: string): NetworkFailure {
  const text = error instanceof Error ? error.message : '';
  if (/key too (?:weak|small)/i.test(text)) return weak('the key');
  if (/(?:digest|md)\b.* too weak/i.test(text)) return weak('the signature');
  const isVerification = error instanceof Error && /certificate|CERT/.test(`${error.message} ${code}`);
  if (isVerification && !code.startsWith('ERR_SSL_')) {
    const message = `the certificate cannot be verified (${code})`;
    return { code: untrusted.code, message, hint: `Your certificate cannot be verified. ${checkChain}` };
  }
  const why = code === 'ECONNRESET' ? 'the server closed the connection' : code;
  return { code: 'tls-protocol', message: `the TLS handshake failed (${why})`, hint: checkTls };
}

/** undici refuses to send such a request, before anything of it is written. */
const refusedRequests = new Set([
  'UND_ERR_INVALID_ARG',
  'UND_ERR_NOT_SUPPORTED',
  'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
]);

/** Whether the request itself is at fault (R6). */
export function isRefusedRequest(error: unknown): boolean {
  return refusedRequests.has(codeOf(error));
}

/** Errors of undici for an answer that contradicts itself or its limits. */
const malformedAnswers = new Set([
  'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
  'UND_ERR_RES_EXCEEDED_MAX_SIZE',
  'ERR_ASSERTION',
]);

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
    error.message === 'bad upgrade' || error.message === 'bad response' || malformedAnswers.has(codeOf(error))
  );
}

function codeOf(error: unknown): string {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  return 'unknown';
}
