import * as v from 'valibot';
import { checkId } from '../contract.ts';
import type { AddressChange, Cause, Endpoint, SealedSecret } from '../policy/gate.ts';
import type { Release } from '../policy/gate-calls.ts';
import type { Redelivery } from '../policy/interventions.ts';
import { LONGEST_ROTATION_MS } from '../policy/rotation.ts';
import type { Report, Rotation } from './messages.ts';

// Anyone with access to the namespace can send a signal: what does not have the right shape is ignored,
// since an exception in a handler would block the workflow for good.

const number = v.pipe(v.number(), v.finite());
/** Generous: what is kept here is carried in the memo and over continue-as-new, which must stay small. */
const LONGEST_URL = 10_000;
const LONGEST_SEALED = 1_000;
const LONGEST_NAMES = 1_000;
const sealed = v.custom<SealedSecret>(
  (value) => typeof value === 'string' && value.length > 0 && value.length <= LONGEST_SEALED,
);
const webhookId = v.pipe(
  v.string(),
  v.check((id) => checkId('webhookId', id).length === 0),
);

const url = v.pipe(v.string(), v.maxLength(LONGEST_URL), v.regex(/^https?:/), v.url());
const sealedHeaders = v.object({
  names: v.pipe(
    v.array(v.string()),
    v.check((names) => JSON.stringify(names).length <= LONGEST_NAMES),
  ),
  values: sealed,
});
const endpointSchema = v.object({ url, secret: sealed, headers: v.exactOptional(sealedHeaders) });
const addressSchema = v.object({
  url,
  headers: v.exactOptional(v.union([sealedHeaders, v.literal('none')])),
});
const rotationSchema = v.object({
  secret: sealed,
  keepOldForMs: v.pipe(number, v.minValue(0), v.maxValue(LONGEST_ROTATION_MS)),
});
const bit = v.union([v.literal(0), v.literal(1)]);
/** A list without what has not the right shape: one bad entry does not lose what other deliveries tell. */
const listOf = <T>(entry: v.GenericSchema<unknown, T>) =>
  v.pipe(
    v.array(v.unknown()),
    v.transform((entries) => entries.map((each) => parsed(entry, each)).filter((each) => each !== undefined)),
  );
const reportSchema = v.object({
  reporter: v.pipe(v.string(), v.maxLength(64)),
  sequence: number,
  samples: listOf(v.tuple([number, bit, number])),
  trials: listOf(v.object({ permit: number, failed: v.boolean() })),
  slowDowns: listOf(v.object({ at: number, retryAfterMs: number })),
  holds: listOf(v.object({ webhookId, call: number, fastFailures: number, heldSince: number })),
  left: listOf(webhookId),
  unusedPermits: listOf(number),
  notices: v.exactOptional(v.literal(true)),
});
const releaseSchema = v.object({ call: number, version: number, permit: v.exactOptional(number) });
const cut = (length: number) =>
  v.pipe(
    v.string(),
    v.transform((text) => text.slice(0, length).toWellFormed()),
  );
const causeSchema = v.object({ by: v.exactOptional(cut(100)), why: v.exactOptional(cut(300)) });
const redeliverySchema = v.object({
  of: v.string(),
  createdAt: v.pipe(v.string(), v.isoTimestamp()),
  bulk: v.exactOptional(v.string()),
  ...causeSchema.entries,
});

export const asEndpoint = (message: unknown): Omit<Endpoint, 'next'> | undefined =>
  parsed(endpointSchema, message);
export const asAddressChange = (message: unknown): AddressChange | undefined => {
  const change = parsed(addressSchema, message);
  return change && { ...change, ...asCause(message) };
};
export const asRotation = (message: unknown): Rotation | undefined => {
  const rotation = parsed(rotationSchema, message);
  return rotation && { ...rotation, ...asCause(message) };
};
export const asReport = (message: unknown): Report | undefined => parsed(reportSchema, message);
/** Who and why, cut to what is kept: an operator who leaves it out, or misspells it, is obeyed all the same. */
export const asCause = (message: unknown): Cause => parsed(causeSchema, message) ?? {};
/** R81: from the memo of a run that was started anew. */
export const asRedelivery = (memo: unknown): Redelivery | undefined => parsed(redeliverySchema, memo);
export const asRelease = (message: unknown): Release | undefined => parsed(releaseSchema, message);

function parsed<T>(schema: v.GenericSchema<unknown, T>, message: unknown): T | undefined {
  const result = v.safeParse(schema, message);
  return result.success ? result.output : undefined;
}
