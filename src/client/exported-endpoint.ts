import * as v from 'valibot';
import { problemsOf } from '../contract.ts';
import { openHeaders } from '../custom-headers.ts';
import { checkEndpointSettings } from '../endpoints.ts';
import { InvalidExport } from '../errors.ts';
import type { Endpoint, SealedSecret } from '../policy/gate.ts';
import { SecretKeyError, type SecretBox } from '../secrets.ts';

/** A merchant's endpoint with its secrets sealed: plain JSON. They open only with the keys that sealed them. */
export interface ExportedEndpoint extends Endpoint {
  readonly merchantId: string;
}

const sealed = v.custom<SealedSecret>((value) => typeof value === 'string', 'must be a sealed secret');
const exportedSchema = v.strictObject({
  merchantId: v.string('must be a string'),
  url: v.string('must be a string'),
  secret: sealed,
  next: v.exactOptional(v.strictObject({ secret: sealed, promoteAt: v.number('must be Unix milliseconds') })),
  headers: v.exactOptional(v.strictObject({ names: v.array(v.string()), values: sealed })),
});

/**
 * Checks that an exported endpoint is whole, belongs to the merchant and opens with the keys at hand.
 * @throws {@link InvalidExport}, {@link InvalidEndpoint}
 */
export async function checkExported(
  exported: unknown,
  merchantId: string,
  box: SecretBox,
  allowHttp: boolean,
): Promise<Endpoint> {
  const parsed = v.safeParse(exportedSchema, exported);
  if (!parsed.success) {
    throw new InvalidExport(
      problemsOf(parsed.issues)
        .map(({ field, message }) => `${field} ${message}`)
        .join('; '),
    );
  }
  const { merchantId: owner, ...endpoint } = parsed.output;
  if (owner !== merchantId) {
    throw new InvalidExport(
      `it is of merchant ${owner}, not ${merchantId}: secrets open for their own merchant only`,
    );
  }
  try {
    const secret = await box.open(merchantId, endpoint.secret);
    if (endpoint.next !== undefined) await box.open(merchantId, endpoint.next.secret);
    const headers = await openHeaders(box, merchantId, endpoint);
    checkEndpointSettings({ url: endpoint.url, secret, headers }, allowHttp);
  } catch (error) {
    if (error instanceof SecretKeyError) throw new InvalidExport(error.message);
    throw error;
  }
  return endpoint;
}
