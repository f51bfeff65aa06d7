import * as v from 'valibot';
import type { Endpoint, SealedHeaders } from './policy/gate.ts';
import type { SecretBox } from './secrets.ts';

/** R72: in all, each counted as it is sent: name, value, and 4 bytes for colon, space and end of line. */
const MAX_BYTES = 512;
const BYTES_BESIDE = 4;

/** What the product, HTTP or a proxy on the way sets; also what tracing will. */
const reserved = new RegExp(
  `^(?:${[
    'host|connection|keep-alive|te|trailers?|transfer-encoding|upgrade|http2-settings|expect|via',
    'user-agent|traceparent|tracestate|baggage|b3',
    '(?:content|proxy|x-webhook|webhook|x-b3)-.*',
  ].join('|')})$`,
  'i',
);
/** RFC 9110, section 5.6.2. */
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const visible = /^[\x21-\x7E](?:[\x20-\x7E]*[\x21-\x7E])?$/;

/** R72: the custom headers of an endpoint, by name. */
export const customHeadersSchema = v.pipe(
  v.custom<Readonly<Record<string, string>>>(
    (value) => Object.prototype.toString.call(value) === '[object Object]',
    'must be an object of names and values',
  ),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    for (const message of problemsWith(Object.entries(dataset.value))) addIssue({ message });
  }),
);

/** Many servers hand `X_A` and `x-a` to their application as one. */
function folded(name: string): string {
  return name.toLowerCase().replaceAll('_', '-');
}

/** Values are never named: they may be credentials. */
function problemsWith(headers: readonly (readonly [name: string, value: unknown])[]): string[] {
  const names = headers.map(([name]) => folded(name));
  const problems = headers.flatMap(([name, value], index) => {
    if (!token.test(name)) {
      return `name ${index + 1} must be a token: letters, digits and !#$%&'*+-.^_\`|~ only`;
    }
    if (reserved.test(folded(name))) return `"${name}" is set by hookladder or by HTTP itself: leave it out`;
    if (names.indexOf(folded(name)) < index) {
      return `"${name}" is there twice, in other letters: keep one`;
    }
    if (typeof value === 'string' && visible.test(value)) return [];
    return `"${name}" must have a value of visible ASCII characters; spaces inside only`;
  });
  const bytes = headers.reduce(
    (sum, [name, value]) => sum + name.length + String(value).length + BYTES_BESIDE,
    0,
  );
  if (problems.length > 0 || bytes <= MAX_BYTES) return problems;
  return [
    `must be at most ${MAX_BYTES} bytes in all (name, value and ${BYTES_BESIDE} for each), not ${bytes}`,
  ];
}

/** Seals the values, since they may be credentials. They open only for this merchant, this URL and these names. */
export async function sealHeaders(
  box: Pick<SecretBox, 'seal'>,
  merchantId: string,
  url: string,
  headers: Readonly<Record<string, string>>,
): Promise<SealedHeaders> {
  const names = Object.keys(headers);
  const values = await box.seal(boundTo(merchantId, url, names), Object.values(headers).join('\n'));
  return { names, values };
}

/** @throws {@link SecretKeyError} if they cannot be opened. */
export async function openHeaders(
  box: Pick<SecretBox, 'open'>,
  merchantId: string,
  { url, headers }: Endpoint,
): Promise<Record<string, string>> {
  if (headers === undefined) return {};
  const values = (await box.open(boundTo(merchantId, url, headers.names), headers.values)).split('\n');
  return Object.fromEntries(headers.names.map((name, index) => [name, values[index] ?? '']));
}

/** Whoever may signal the merchant's entity must not have the values sent elsewhere. */
function boundTo(merchantId: string, url: string, names: readonly string[]): string {
  return JSON.stringify([merchantId, url, names]);
}
