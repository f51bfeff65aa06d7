import type { Client } from '@temporalio/client';
import { askIfAllowed } from './ask-if-allowed.ts';
import { SEARCH_ATTRIBUTES } from './contract.ts';

/** The namespace lacks search attributes, without which a delivery would be stuck at its first task. */
export class SearchAttributesMissing extends Error {
  readonly code = 'SEARCH_ATTRIBUTES_MISSING';
  constructor(namespace: string, missing: readonly (readonly [name: string, type: string])[]) {
    const commands = missing.map(
      ([name, type]) =>
        `  temporal operator search-attribute create --namespace ${namespace} --name ${name} --type ${type}`,
    );
    super([`the namespace ${namespace} lacks search attributes; register them:`, ...commands].join('\n'));
    this.name = 'SearchAttributesMissing';
  }
}

/**
 * Checks that the namespace knows the product's search attributes. Where the operator API is closed to us, as
 * on Temporal Cloud, it is taken on trust.
 * @throws {@link SearchAttributesMissing} with the commands that register them.
 */
export async function checkSearchAttributes(client: Client, withinMs?: number): Promise<void> {
  const { namespace } = client.options;
  const known = await askIfAllowed(
    client,
    ({ operatorService }) => operatorService.listSearchAttributes({ namespace }),
    withinMs,
  );
  if (known === undefined) return;
  const missing = Object.entries(SEARCH_ATTRIBUTES).filter(
    ([name]) => !Object.hasOwn(known.customAttributes ?? {}, name),
  );
  if (missing.length > 0) throw new SearchAttributesMissing(namespace, missing);
}
