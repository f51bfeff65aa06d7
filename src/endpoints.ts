import { isIP } from 'node:net';
import type { Duration } from '@temporalio/common';
import { msToNumber } from '@temporalio/common/lib/time.js';
import * as v from 'valibot';
import { problemsOf } from './contract.ts';
import { customHeadersSchema } from './custom-headers.ts';
import { InvalidEndpoint } from './errors.ts';
import type { AddressGuard } from './http/address-guard.ts';
import { hostOf } from './http/origin.ts';
import { Resolver } from './http/resolver.ts';
import type { Cause } from './policy/gate.ts';
import { LONGEST_ROTATION_MS } from './policy/rotation.ts';

/** An endpoint as it is set. */
export interface EndpointSettings {
  /** An absolute https URL, at most 1,024 characters; a fragment is dropped. */
  readonly url: string;
  /** The signing secret, 16 to 128 bytes of UTF-8; `whsec_` and base64 for Standard Webhooks. */
  readonly secret: string;
  /**
   * R72: sent with each webhook beside the product's own headers, at most 512 bytes in all. Values may be credentials:
   * they are sealed like the secret and never shown.
   */
  readonly headers?: Readonly<Record<string, string>>;
}

/** R50: what goes with another address, beside who and why. */
export interface UrlOptions extends Cause {
  /**
   * Custom headers, as of {@link EndpointSettings}. They open for their address only: an endpoint that has some needs
   * them again with another address; an empty object does without.
   */
  readonly headers?: Readonly<Record<string, string>>;
}

/** R63: how a signing secret is replaced. */
export interface RotationOptions extends Cause {
  /**
   * How long the old secret stays the first, milliseconds or such as `'7 days'`; 24 hours by default. 0 replaces it at
   * once, for one that has leaked.
   */
  readonly keepOldFor?: Duration;
}

const LEAST_KEY_BYTES = 16;
const secretSchema = v.pipe(
  v.string('must be a string'),
  v.check((text) => text.isWellFormed(), 'must be well-formed Unicode'),
  v.check((text) => {
    const bytes = Buffer.byteLength(text);
    return bytes >= 16 && bytes <= 128;
  }, 'must be 16 to 128 bytes'),
  v.check(
    (text) => !text.startsWith('whsec_') || isBase64(text.slice(6)),
    'that starts with "whsec_" must go on with base64, with its padding',
  ),
  v.check((text) => {
    const bytes = Buffer.from(text.slice(6), 'base64').length;
    return !text.startsWith('whsec_') || !isBase64(text.slice(6)) || bytes >= LEAST_KEY_BYTES;
  }, `that starts with "whsec_" must have a key of at least ${LEAST_KEY_BYTES} bytes in base64`),
);

/** Other verifiers refuse what Node would decode leniently. */
function isBase64(text: string): boolean {
  return text !== '' && Buffer.from(text, 'base64').toString('base64') === text;
}

const tooLong = 'must be at most 1,024 characters, also once it is written in ASCII';

const urlSchema = (allowHttp: boolean) =>
  v.pipe(
    v.string('must be a string'),
    v.maxLength(1024, tooLong),
    v.check((text) => !/[\p{Cc}\s]/u.test(text), 'must not contain control characters or spaces'),
    v.check((text) => text.isWellFormed() && URL.canParse(text), 'must be an absolute URL'),
    v.check(
      (text) => {
        const { protocol } = new URL(text);
        return protocol === 'https:' || (allowHttp && protocol === 'http:');
      },
      allowHttp ? 'must begin with https:// or http://' : 'must begin with https://',
    ),
    v.check((text) => {
      const { username, password } = new URL(text);
      return username === '' && password === '';
    }, 'must not contain a user name or password: receivers authenticate by the signature'),
    v.transform((text) => {
      const url = new URL(text);
      url.hash = '';
      return url.href;
    }),
    v.maxLength(1024, tooLong),
  );

/**
 * R72: checks an endpoint's syntax and drops the fragment of its URL.
 * @throws {@link InvalidEndpoint} that names each field and the remedy, and never a secret.
 */
export function checkEndpointSettings(settings: EndpointSettings, allowHttp: boolean): EndpointSettings {
  const schema = v.strictObject({
    url: urlSchema(allowHttp),
    secret: secretSchema,
    headers: v.exactOptional(customHeadersSchema),
  });
  const result = v.safeParse(schema, settings, { abortPipeEarly: true });
  if (!result.success) throw new InvalidEndpoint(problemsOf(result.issues));
  return result.output;
}

const urlChangeSchema = (allowHttp: boolean) =>
  v.strictObject({
    url: urlSchema(allowHttp),
    headers: v.exactOptional(customHeadersSchema),
    by: v.exactOptional(v.string('must be a string')),
    why: v.exactOptional(v.string('must be a string')),
  });

/**
 * R72: checks another address of an endpoint, and drops its fragment.
 * @throws {@link InvalidEndpoint} that names each field and the remedy.
 */
export function checkUrlChange(url: string, options: UrlOptions, allowHttp: boolean) {
  const result = v.safeParse(urlChangeSchema(allowHttp), { url, ...options }, { abortPipeEarly: true });
  if (!result.success) throw new InvalidEndpoint(problemsOf(result.issues));
  return result.output;
}

const rotationSchema = v.strictObject({
  newSecret: secretSchema,
  keepOldFor: v.pipe(
    v.unknown(),
    v.transform(milliseconds),
    v.number('must be milliseconds, or a text such as "7 days"'),
    v.minValue(0, 'must not be negative'),
    v.maxValue(LONGEST_ROTATION_MS, 'must be at most 366 days'),
  ),
  by: v.exactOptional(v.string('must be a string')),
  why: v.exactOptional(v.string('must be a string')),
});

/**
 * R63: checks a rotation, and puts in the default of 24 hours.
 * @throws {@link InvalidEndpoint} that names each field and the remedy, and never a secret.
 */
export function checkRotation(newSecret: string, { keepOldFor = '24 hours', ...cause }: RotationOptions) {
  const result = v.safeParse(rotationSchema, { newSecret, keepOldFor, ...cause }, { abortPipeEarly: true });
  if (!result.success) throw new InvalidEndpoint(problemsOf(result.issues));
  const { keepOldFor: keepOldForMs, ...rest } = result.output;
  return { ...rest, keepOldForMs };
}

function milliseconds(duration: unknown): unknown {
  try {
    return Math.ceil(msToNumber(duration as Duration));
  } catch {
    return undefined;
  }
}

/** A name is given this long to be resolved when an endpoint is set. */
const RESOLVE_WITHIN_MS = 3_000;

/**
 * R72: refuses an endpoint whose host is a blocked address, or a name that has only such addresses. A name that does
 * not resolve now is taken, since its DNS may lag behind: each attempt checks the address that it connects to.
 * @returns what the caller should know of a host that was taken.
 * @throws {@link InvalidEndpoint}
 */
export async function checkEndpointHost(
  url: string,
  guard: AddressGuard,
  resolver: Pick<Resolver, 'resolve'> = new Resolver(),
  withinMs = RESOLVE_WITHIN_MS,
): Promise<{ readonly warning?: string }> {
  const { hostname } = new URL(url);
  const refusal = guard.hostRefusal(hostname);
  if (refusal !== undefined) throw refusedHost(refusal);
  if (isIP(hostOf(new URL(url))) !== 0) return {};
  const late = AbortSignal.timeout(withinMs);
  const resolved = await resolver
    .resolve(hostname, late)
    .catch((error: unknown) => (late.aborted ? `no answer within ${withinMs / 1_000} s` : codeOf(error)));
  if (typeof resolved === 'string') return { warning: `${hostname} does not resolve now (${resolved})` };
  const refusals = resolved.map((address) => guard.refusal(address)).filter((each) => each !== undefined);
  if (refusals.length === 0 || refusals.length < resolved.length) return {};
  throw refusedHost(`${hostname} has no other address, and ${refusals.join(', ')}`);
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error);
}

function refusedHost(reason: string): InvalidEndpoint {
  const remedy = 'give a public address, or allow its network (allowedNetworks, HOOKLADDER_ALLOWED_NETWORKS)';
  return new InvalidEndpoint([{ field: 'url', message: `must not point there: ${reason}; ${remedy}` }]);
}
