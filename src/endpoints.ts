import * as v from 'valibot';
import { problemsOf } from './contract.ts';
import { InvalidEndpoint } from './errors.ts';

/** An endpoint as it is set. */
export interface EndpointSettings {
  /** An absolute https URL, at most 1,024 characters; a fragment is dropped. */
  readonly url: string;
  /** The signing secret, 16 to 128 bytes of UTF-8; `whsec_` and base64 for Standard Webhooks. */
  readonly secret: string;
  /** R63: a second secret that will follow the first. */
  readonly nextSecret?: string;
}

const secretSchema = v.pipe(
  v.string('must be a string'),
  v.check((text) => text.isWellFormed(), 'must be well-formed Unicode'),
  v.check((text) => {
    const bytes = Buffer.byteLength(text);
    return bytes >= 16 && bytes <= 128;
  }, 'must be 16 to 128 bytes'),
  v.check(
    (text) => !text.startsWith('whsec_') || /^[A-Za-z0-9+/]+={0,2}$/.test(text.slice(6)),
    'that starts with "whsec_" must go on with base64',
  ),
);

const urlSchema = (allowHttp: boolean) =>
  v.pipe(
    v.string('must be a string'),
    v.maxLength(1024, 'must be at most 1,024 characters'),
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
  );

/**
 * R72: checks an endpoint's syntax and drops the fragment of its URL.
 * @throws {@link InvalidEndpoint} that names each field and the remedy, and never a secret.
 */
export function checkEndpointSettings(settings: EndpointSettings, allowHttp: boolean): EndpointSettings {
  const schema = v.strictObject({
    url: urlSchema(allowHttp),
    secret: secretSchema,
    nextSecret: v.exactOptional(secretSchema),
  });
  const result = v.safeParse(schema, settings, { abortPipeEarly: true });
  if (!result.success) throw new InvalidEndpoint(problemsOf(result.issues));
  return result.output;
}
