/**
 * What a payment platform's services import: hand over webhooks, ask where they are, set merchants'
 * endpoints. It talks to Temporal only.
 */
import type { TracerProvider } from '@opentelemetry/api';
import {
  Client,
  Connection,
  WorkflowExecutionAlreadyStartedError,
  type ClientOptions,
} from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { pMapSettled } from 'p-map';
import { v7 as uuidv7 } from 'uuid';
import type { BulkOrder, BulkSettings } from './bulk.ts';
import { BulkHandle, listBulk, startBulk, type ListedBulk } from './client/bulk-handle.ts';
import { exportDeliveries, type ExportedDelivery, type ExportOptions } from './client/delivery-export.ts';
import { DeliveryHandle } from './client/delivery-handle.ts';
import { listDeliveries, type ListedDelivery, type ListOptions } from './client/listing.ts';
import { listMerchants, type ListedMerchant } from './client/merchant-listing.ts';
import { MerchantHandle } from './client/merchant-handle.ts';
import { TemporalCalls } from './client/temporal-calls.ts';
import { tracedClient } from './client/traced-client.ts';
import { checkDeliveryInput, checkId, deliveryWorkflowId, type DeliveryInput } from './contract.ts';
import { acceptedInput, standingOf, startDelivery, type Standing } from './deliveries.ts';
import { dataConverterOf, encryptionOf, type Encryption } from './encryption/encryption.ts';
import { IdConflict, InvalidEndpoint, InvalidWebhook } from './errors.ts';
import { checkExportFilter, checkFilter, visibilityQuery, type DeliveryFilter } from './filter.ts';
import { AddressGuard, networkProblem, networksOf } from './http/address-guard.ts';
import type { PolicyOverrides } from './policy/policy.ts';
import { keysFromEnvironment, type KeySource } from './key-list.ts';
import { SecretBox } from './secrets.ts';

export * from './errors.ts';
export { SecretKeyError } from './secrets.ts';
export { dataConverterOf, type Encryption } from './encryption/encryption.ts';
export type { EncryptionKey, EncryptionKeys, EncryptionKeySource } from './encryption/keys.ts';
export type { KeySource };
export type { Change, EndpointChange, MerchantDescription } from './client/merchant-handle.ts';
export type { DeliveryHandle, MerchantHandle };
export type { BulkHandle };
export type { BulkOrder, BulkProgress, BulkSettings, BulkSkip } from './bulk.ts';
export type { BreakerFilter, DeliveryFilter, FilterState } from './filter.ts';
export type { ListedBulk, ListedDelivery, ListedMerchant, ListOptions };
export type { ExportedDelivery, ExportOptions };
export type { ExportedAttempt } from './client/delivery-export.ts';
export type { ExportedEndpoint } from './client/exported-endpoint.ts';
export type { RedeliverOutcome } from './client/delivery-handle.ts';
export type { Intervention } from './policy/interventions.ts';
export type { Standing } from './deliveries.ts';
export type { EndpointSettings, RotationOptions, UrlOptions } from './endpoints.ts';
export type { Problem } from './contract.ts';
export type { DeliveryState, DeliveryStatus } from './policy/status.ts';
export type { FailureReason } from './policy/ladders.ts';
export type { Verdict } from './policy/verdicts.ts';
export type { Cause } from './policy/gate.ts';
export type { Transition } from './workflows/merchant-state.ts';
export type { EndpointView, MerchantStatus, TryNowOutcome } from './workflows/messages.ts';

/** How the client reaches Temporal and what it may do. */
export interface HookladderOptions {
  /**
   * A Temporal client whose connection, namespace and interceptors are used. Without one, the connection is made from
   * the environment as all Temporal tools do: `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_PROFILE`,
   * `TEMPORAL_TLS…`, `TEMPORAL_API_KEY`.
   */
  readonly client?: Client;
  /**
   * How payloads are encrypted before they go to Temporal; the workers need the same keys. By default
   * `HOOKLADDER_ENCRYPTION_KEYS_FILE`, `HOOKLADDER_ENCRYPTION_KEYS` or `HOOKLADDER_ENCRYPTION_KEYS_MODULE`, or nothing is
   * encrypted if `HOOKLADDER_ENCRYPTION` is `off`.
   */
  readonly encryption?: Encryption;
  /** Limit of one call to Temporal, milliseconds; 10,000 by default. */
  readonly connectTimeoutMs?: number;
  /** Keys that seal merchants' secrets; by default `HOOKLADDER_SECRET_KEYS` or `HOOKLADDER_SECRET_KEYS_FILE`. */
  readonly secretKeys?: KeySource;
  /** R72: whether endpoints may be plain `http`; never in production. False by default. */
  readonly allowHttp?: boolean;
  /**
   * R72: CIDRs of networks that are not public and that endpoints may be in all the same, such as `10.1.0.0/16`; the
   * workers need the same. By default `HOOKLADDER_ALLOWED_NETWORKS`, else none.
   */
  readonly allowedNetworks?: readonly string[];
  /**
   * OpenTelemetry traces of what is asked of Temporal; deliveries go on in the trace that is active when they are handed
   * over. By default the provider that the process has registered if the environment says where traces go
   * (`OTEL_EXPORTER_OTLP_ENDPOINT`), else none. Needs a context manager and a propagator, which OpenTelemetry's SDK
   * registers.
   */
  readonly tracerProvider?: TracerProvider;
  /** Numbers that differ from the published rules, given to every delivery and merchant; for tests and demos. */
  readonly policy?: PolicyOverrides;
}

/** A webhook to deliver. */
export interface Webhook {
  /** R71: 1 to 64 of `A-Za-z0-9._-`; ids that differ in case are different merchants. */
  readonly merchantId: string;
  /** R71: 1 to 128 of `A-Za-z0-9._-`. Give your own to make handing over repeatable; without it a UUIDv7 is made. */
  readonly webhookId?: string;
  /** R71: event type, 1 to 128 of `a-z0-9._-`, such as `payment.status_changed`. */
  readonly type: string;
  /** R60, R71: JSON in UTF-8, at most 256 KiB; sent byte for byte. */
  readonly body: string | Uint8Array;
  /** The payment it belongs to, at most 128 characters, to find all its webhooks. */
  readonly paymentId?: string;
}

/** What came of handing over a webhook. */
export interface Accepted {
  readonly webhookId: string;
  readonly delivery: DeliveryHandle;
  /** R70: false if Temporal knew this webhook already; then nothing was started. */
  readonly started: boolean;
  /** How the delivery that was there already stands. */
  readonly existing?: Standing;
}

/** Hands over webhooks and asks for their state. One for a process; safe to share. */
export class Hookladder {
  private readonly calls: TemporalCalls;
  private readonly ownConnection: Connection | undefined;
  private readonly settings: ConstructorParameters<typeof MerchantHandle>[2];

  /**
   * Connects when first used; nothing is sent before.
   * @throws TypeError on an unknown option, or on an allowed network that is no CIDR; {@link EncryptionNotConfigured} if
   *   neither the options nor the environment say how to encrypt; {@link EncryptionKeyError}
   */
  constructor(options: HookladderOptions = {}) {
    const unknown = Object.keys(options).filter((name) => !Object.hasOwn(knownOptions, name));
    if (unknown.length > 0) {
      throw new TypeError(
        `unknown option ${unknown.join(', ')}; known are ${Object.keys(knownOptions).join(', ')}`,
      );
    }
    const dataConverter = dataConverterOf(options.encryption ?? encryptionOf(process.env));
    const { own, ...clientOptions } = options.client ? optionsOf(options.client) : connect();
    this.ownConnection = own;
    const client = tracedClient(new Client({ ...clientOptions, dataConverter }), options.tracerProvider);
    this.calls = new TemporalCalls(client, options.connectTimeoutMs ?? 10_000);
    const keys = options.secretKeys ?? keysFromEnvironment();
    this.settings = {
      secrets: keys && new SecretBox(keys),
      allowHttp: options.allowHttp ?? false,
      guard: guardOf(options),
      policy: options.policy,
    };
  }

  /**
   * R70: hands over a webhook. When this resolves it is stored, and will be delivered or end as FAILED by the
   * rules. Calling again with the same merchant and webhook id starts nothing and says so.
   * @throws {@link InvalidWebhook} before anything is stored (R71); {@link IdConflict} if the id belongs to a
   *   delivery with another body or type; {@link TemporalUnavailable}, after which the same call may be repeated.
   */
  async deliver(webhook: Webhook): Promise<Accepted> {
    const input = this.inputOf(webhook);
    const { merchantId, webhookId } = input;
    const delivery = new DeliveryHandle(this.calls, merchantId, webhookId);
    try {
      await this.calls.call(() => startDelivery(this.calls.client, input));
      return { webhookId, delivery, started: true };
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      return { webhookId, delivery, started: false, existing: await this.existing(input) };
    }
  }

  /**
   * Hands over many webhooks, each as {@link deliver} does, several at once.
   * @param concurrency - handed over at once; 16 by default.
   * @returns for each webhook, in the order given, what came of it or the error that it alone met; those may be handed
   *   over again.
   */
  async deliverMany(
    webhooks: readonly Webhook[],
    { concurrency = 16 }: { readonly concurrency?: number } = {},
  ): Promise<PromiseSettledResult<Accepted>[]> {
    return await pMapSettled(webhooks, (webhook) => this.deliver(webhook), { concurrency });
  }

  /**
   * Lists deliveries, the newest first, each with its state of now. They are found by visibility, which may not know yet
   * what was accepted or ended in the last second or so.
   * @throws {@link InvalidFilter}; while iterating {@link TemporalUnavailable}
   */
  list(filter: DeliveryFilter = {}, options: ListOptions = {}): AsyncIterable<ListedDelivery> {
    return listDeliveries(this.calls, checkFilter(filter), options);
  }

  /**
   * How many deliveries visibility knows for a filter: a quick estimate for filters by state, where runs that were
   * started anew since count too.
   * @throws {@link InvalidFilter}, {@link TemporalUnavailable}
   */
  async count(filter: DeliveryFilter = {}): Promise<number> {
    const query = visibilityQuery(checkFilter(filter), Date.now());
    return (await this.calls.call(() => this.calls.client.workflow.count(query))).count;
  }

  /**
   * Exports deliveries that have ended, each run with its attempts as Temporal's history has them: evidence in a dispute.
   * The newest first, any number, for as long as the namespace keeps closed workflows.
   * @throws {@link InvalidFilter}, also on the state of an open delivery; while iterating {@link TemporalUnavailable}
   */
  export(filter: DeliveryFilter = {}, options: ExportOptions = {}): AsyncIterable<ExportedDelivery> {
    return exportDeliveries(this.calls, checkExportFilter(filter), options);
  }

  /** All that belongs to a payment: whatever its merchants and event types. */
  payment(paymentId: string): { deliveries(): Promise<ListedDelivery[]> } {
    const { calls } = this;
    const filter = checkFilter({ paymentId });
    return {
      async deliveries() {
        return await Array.fromAsync(listDeliveries(calls, filter, { limit: Number.POSITIVE_INFINITY }));
      },
    };
  }

  /**
   * R81, R82, R49: gives one command for all that a filter asks for. It is carried out by a workflow of its own, paced,
   * whatever becomes of this process; each target once. Its id comes from command and filter: given again while it is
   * under way, it is that one. What visibility did not know yet is picked up by giving it again once it has ended.
   * @throws {@link InvalidFilter}, {@link TemporalUnavailable}
   */
  async bulk(order: BulkOrder & BulkSettings): Promise<BulkHandle> {
    return await startBulk(this.calls, order);
  }

  /** A bulk command that was given before, by its id. */
  bulkCommand(id: string): BulkHandle {
    return new BulkHandle(this.calls, id, false);
  }

  /**
   * Bulk commands, the newest first, as long as the namespace keeps them.
   * @param limit - at most so many; 20 by default.
   * @throws while iterating {@link TemporalUnavailable}
   */
  bulkCommands({ limit = 20 }: { readonly limit?: number } = {}): AsyncIterable<ListedBulk> {
    return listBulk(this.calls, limit);
  }

  /** The delivery of a webhook that was handed over before. */
  delivery(merchantId: string, webhookId: string): DeliveryHandle {
    const problems = [...checkId('merchantId', merchantId), ...checkId('webhookId', webhookId)];
    if (problems.length > 0) throw new InvalidWebhook(problems);
    return new DeliveryHandle(this.calls, merchantId, webhookId);
  }

  /** A merchant, known or not. */
  merchant(merchantId: string): MerchantHandle {
    const problems = checkId('merchantId', merchantId);
    if (problems.length > 0) throw new InvalidEndpoint(problems);
    return new MerchantHandle(this.calls, merchantId, this.settings);
  }

  /**
   * Lists the merchants that something is known of, from what their entities have published.
   * @param notClosed - only those whose breaker is not closed, or that are paused.
   * @throws while iterating {@link TemporalUnavailable}
   */
  merchants({ notClosed = false }: { readonly notClosed?: boolean } = {}): AsyncIterable<ListedMerchant> {
    return listMerchants(this.calls, notClosed);
  }

  /** Closes the connection if the client made it itself. */
  async close(): Promise<void> {
    await this.ownConnection?.close();
  }

  private inputOf(webhook: Webhook): DeliveryInput {
    if (typeof webhook !== 'object' || webhook === null) {
      throw new InvalidWebhook([{ field: 'webhook', message: 'must be an object' }]);
    }
    // An id that is there but undefined is a mistake of the caller's: one made here would not be the same next time.
    const { webhookId = 'webhookId' in webhook ? undefined : uuidv7(), body, ...rest } = webhook;
    const { policy } = this.settings;
    const input = { ...rest, webhookId, body: textOf(body), ...(policy === undefined ? {} : { policy }) };
    const checked = checkDeliveryInput(input);
    if (!checked.ok) throw new InvalidWebhook(checked.problems);
    return checked.input;
  }

  /** R70: how the delivery that has this id stands, if it is the same webhook. */
  private async existing(input: DeliveryInput): Promise<Standing> {
    const { merchantId, webhookId } = input;
    const { client } = this.calls;
    const workflowId = deliveryWorkflowId(merchantId, webhookId);
    const { status, runId } = await this.calls.call(() => client.workflow.getHandle(workflowId).describe());
    const known = await this.calls.call(() => acceptedInput(client, { workflowId, runId }));
    if (!isSameWebhook(known, input)) throw new IdConflict(merchantId, webhookId);
    return standingOf(status.name);
  }
}

const knownOptions = {
  client: true,
  connectTimeoutMs: true,
  secretKeys: true,
  encryption: true,
  allowHttp: true,
  allowedNetworks: true,
  tracerProvider: true,
  policy: true,
} as const satisfies Record<keyof HookladderOptions, true>;

function connect(): ClientOptions & { readonly own: Connection } {
  const { connectionOptions, namespace } = loadClientConnectConfig();
  const connection = Connection.lazy(connectionOptions);
  return { own: connection, connection, ...(namespace === undefined ? {} : { namespace }) };
}

function optionsOf({ connection, options }: Client): ClientOptions & { readonly own: undefined } {
  const { namespace, identity, interceptors, workflow } = options;
  return { own: undefined, connection, namespace, identity, interceptors, workflow };
}

function guardOf({ allowedNetworks }: HookladderOptions): AddressGuard {
  const allow = allowedNetworks ?? networksOf(process.env['HOOKLADDER_ALLOWED_NETWORKS']);
  const problem = networkProblem(allow);
  const source = allowedNetworks === undefined ? 'HOOKLADDER_ALLOWED_NETWORKS' : 'allowedNetworks';
  if (problem !== undefined) throw new TypeError(`${source}: ${problem}`);
  return new AddressGuard({ allow });
}

/** The exact text of a body. Bytes that are not UTF-8 are refused; a byte order mark is kept for the check to find. */
function textOf(body: string | Uint8Array): string {
  if (!(body instanceof Uint8Array)) return body;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    throw new InvalidWebhook([{ field: 'body', message: 'must be valid UTF-8' }]);
  }
}

function isSameWebhook(known: unknown, input: DeliveryInput): boolean {
  if (typeof known !== 'object' || known === null || !('body' in known) || !('type' in known)) return false;
  return known.body === input.body && known.type === input.type;
}
