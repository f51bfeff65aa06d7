import type { SignalDefinition } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import { GATE_MEMO, merchantWorkflowId } from '../contract.ts';
import { sealHeaders } from '../custom-headers.ts';
import {
  checkEndpointHost,
  checkEndpointSettings,
  checkRotation,
  checkUrlChange,
  type EndpointSettings,
  type RotationOptions,
  type UrlOptions,
} from '../endpoints.ts';
import { InvalidEndpoint, MerchantNotFound, NoEndpoint, NoRotation, SecretKeyMissing } from '../errors.ts';
import type { AddressGuard } from '../http/address-guard.ts';
import { signalMerchant } from '../merchants.ts';
import type { Cause, GateView } from '../policy/gate.ts';
import type { PolicyOverrides } from '../policy/policy.ts';
import type { SecretBox } from '../secrets.ts';
import {
  merchantQuery,
  pauseSignal,
  promoteSecretSignal,
  removeEndpointSignal,
  resetBreakerSignal,
  resumeSignal,
  rotateSecretSignal,
  setEndpointSignal,
  setUrlSignal,
  type EndpointView,
  type MerchantStatus,
} from '../workflows/messages.ts';
import type { Verdict } from '../policy/verdicts.ts';
import { runEndpointTest } from './endpoint-test.ts';
import { checkExported, type ExportedEndpoint } from './exported-endpoint.ts';
import type { TemporalCalls } from './temporal-calls.ts';

/** A change of an endpoint is durable at once; this long is waited for the merchant's entity to take it up. */
const APPLIED_WITHIN_MS = 5_000;
const APPLIED_POLL_MS = 50;
const ENDED = 'ended by somebody, to be started again by the next message';

/** A merchant as it stands. Secrets are never handed out. */
export interface MerchantDescription {
  readonly merchantId: string;
  readonly endpoint?: EndpointView;
  /** Deliveries in the waiting room. */
  readonly held: number;
  /** Whether held deliveries are being released. */
  readonly draining: boolean;
}

/** What came of a change: it is durable in any case. */
export interface Change {
  /** Whether the merchant's entity has taken it up already; if not, it will as soon as a worker runs. */
  readonly applied: boolean;
}

/** What came of setting an endpoint. */
export interface EndpointChange extends Change {
  /** It was taken, but: its host does not resolve now. */
  readonly warning?: string;
}

/** One merchant. Made by {@link Hookladder.merchant}. */
export class MerchantHandle {
  readonly merchantId: string;
  private readonly calls: TemporalCalls;
  private readonly settings: {
    readonly secrets: SecretBox | undefined;
    readonly allowHttp: boolean;
    readonly guard: AddressGuard;
    readonly policy: PolicyOverrides | undefined;
  };

  constructor(calls: TemporalCalls, merchantId: string, settings: MerchantHandle['settings']) {
    this.calls = calls;
    this.merchantId = merchantId;
    this.settings = settings;
  }

  /**
   * R50, R72: sets where this merchant receives webhooks, in place of what was set before; deliveries held for
   * want of an address start. The secret and the headers are sealed before they leave this process. What is left out is
   * not kept: headers go, and a rotation of the secret ends (R63).
   * @param cause - who and why, to be read later; without it only a change of the address is remembered.
   * @throws {@link InvalidEndpoint}, {@link SecretKeyMissing}, {@link TemporalUnavailable}
   */
  async setEndpoint(settings: EndpointSettings, cause: Cause = {}): Promise<EndpointChange> {
    const { url, secret, headers = {} } = checkEndpointSettings(settings, this.settings.allowHttp);
    const { merchantId, box } = this;
    const taken = await checkEndpointHost(url, this.settings.guard);
    const hasHeaders = Object.keys(headers).length > 0;
    const endpoint = {
      url,
      secret: await box.seal(merchantId, secret),
      ...(hasHeaders ? { headers: await sealHeaders(box, merchantId, url, headers) } : {}),
    };
    return { ...(await this.change(setEndpointSignal, { ...endpoint, ...cause })), ...taken };
  }

  /**
   * R50: another address for the same merchant. Secrets stay, and with them a rotation that is under way. Values of
   * custom headers open for their address only (R72): where there are any, give `headers` again.
   * @throws {@link InvalidEndpoint}; {@link MerchantNotFound} or {@link NoEndpoint} if there is no secret to keep;
   *   {@link SecretKeyMissing} with headers; {@link TemporalUnavailable}
   */
  async setUrl(newUrl: string, options: UrlOptions = {}): Promise<EndpointChange> {
    const { url, headers, ...cause } = checkUrlChange(newUrl, options, this.settings.allowHttp);
    const { merchantId } = this;
    const gate = await this.gate();
    if (gate === undefined) throw new MerchantNotFound(merchantId);
    if (gate.endpoint === undefined) throw new NoEndpoint(merchantId);
    const taken = await checkEndpointHost(url, this.settings.guard);
    if (gate.endpoint.headers !== undefined && headers === undefined && url !== gate.endpoint.url) {
      throw headersNeeded(gate.endpoint.headers.names);
    }
    const message = { url, ...(await this.sealed(url, headers)), ...cause };
    const isSo = (now: GateView | undefined) => headers === undefined && now?.endpoint?.url === url;
    return { ...(await this.change(setUrlSignal, message, isSo)), ...taken };
  }

  private async sealed(url: string, headers: UrlOptions['headers']) {
    if (headers === undefined) return {};
    if (Object.keys(headers).length === 0) return { headers: 'none' as const };
    return { headers: await sealHeaders(this.box, this.merchantId, url, headers) };
  }

  /**
   * R63: replaces the signing secret while receivers change over. Until the new one is promoted, by
   * {@link promoteSecret} or when `keepOldFor` ends, `X-Webhook-Signature` stays with the old one,
   * `X-Webhook-Signature-Next` carries the new one, and `webhook-signature` both. Another rotation before that replaces
   * the new one; the old one stays.
   * @throws {@link InvalidEndpoint}, {@link NoEndpoint}, {@link SecretKeyMissing}, {@link TemporalUnavailable}
   */
  async rotateSecret(newSecret: string, options: RotationOptions = {}): Promise<Change> {
    const { newSecret: secret, ...rotation } = checkRotation(newSecret, options);
    const { merchantId, box } = this;
    if ((await this.gate())?.endpoint === undefined) throw new NoEndpoint(merchantId);
    return await this.change(rotateSecretSignal, { secret: await box.seal(merchantId, secret), ...rotation });
  }

  /**
   * R63: ends a rotation now: the new secret is the only one, and the old one is dropped.
   * @throws {@link NoRotation} if there is one secret only; {@link TemporalUnavailable}
   */
  async promoteSecret(cause: Cause = {}): Promise<Change> {
    if ((await this.gate())?.endpoint?.next === undefined) throw new NoRotation(this.merchantId);
    return await this.change(promoteSecretSignal, cause);
  }

  /**
   * R50: takes the address away; deliveries of this merchant are held until one is set.
   * @throws {@link TemporalUnavailable}
   */
  async removeEndpoint(cause: Cause = {}): Promise<Change> {
    if ((await this.gate()) === undefined) return { applied: true };
    return await this.change(removeEndpointSignal, cause, (gate) => gate?.endpoint === undefined);
  }

  /**
   * R49: closes the breaker, whatever it has seen, and lets the held deliveries go.
   * @throws {@link MerchantNotFound}, {@link TemporalUnavailable}
   */
  async resetBreaker(cause: Cause = {}): Promise<Change> {
    await this.mustBeKnown();
    return await this.change(resetBreakerSignal, cause);
  }

  /**
   * R53: holds all deliveries of this merchant until it is resumed.
   * @throws {@link MerchantNotFound}, {@link TemporalUnavailable}
   */
  async pause(cause: Cause = {}): Promise<Change> {
    await this.mustBeKnown();
    return await this.change(pauseSignal, cause, (gate) => gate?.paused !== undefined);
  }

  /**
   * R53: ends a pause; the held deliveries go, unless the breaker holds them.
   * @throws {@link MerchantNotFound}, {@link TemporalUnavailable}
   */
  async resume(cause: Cause = {}): Promise<Change> {
    await this.mustBeKnown();
    return await this.change(resumeSignal, cause, (gate) => gate?.paused === undefined);
  }

  /**
   * The breaker in words and numbers: circuit, window, held deliveries, who changed what.
   * @returns `undefined` while the merchant has no entity: closed, and no address.
   * @throws {@link NoWorker}, {@link TemporalUnavailable}
   */
  async breaker(): Promise<MerchantStatus | undefined> {
    const entity = await this.entityDescription();
    if (entity === undefined) return undefined;
    const status = await this.calls.askWorker(() => this.entity().query(merchantQuery, Date.now()));
    if (entity.status.name === 'RUNNING') return status;
    return { ...status, ended: true, summary: `${ENDED}: ${status.summary}` };
  }

  /**
   * How the merchant stands: its address and how many of its deliveries are held.
   * @throws {@link NoWorker}, {@link TemporalUnavailable}
   */
  async describe(): Promise<MerchantDescription> {
    const { merchantId } = this;
    const status = await this.breaker();
    if (status === undefined) return { merchantId, held: 0, draining: false };
    const { gate, held } = status;
    const { endpoint, draining } = gate;
    return { merchantId, ...(endpoint === undefined ? {} : { endpoint }), held, draining };
  }

  /**
   * Sends one signed test event, of type `hookladder.test`, to the endpoint by a worker, with its secrets and headers,
   * and tells what came of it. It passes the gate whatever that says, also while the breaker is open or the merchant is
   * paused; it is no sample of the breaker, no delivery, and is never sent again.
   * @throws {@link NoEndpoint}; {@link OwnFault} if nothing could be sent; {@link NoWorker}, {@link TemporalUnavailable}
   */
  async sendTest(): Promise<{ readonly webhookId: string; readonly verdict: Verdict }> {
    const { merchantId } = this;
    if ((await this.gate())?.endpoint === undefined) throw new NoEndpoint(merchantId);
    const webhookId = `test-${uuidv7()}`;
    const verdict = await runEndpointTest(this.calls, { merchantId, webhookId });
    return { webhookId, verdict };
  }

  /**
   * The endpoint with its secrets sealed, to be imported elsewhere with the same keys.
   * @throws {@link NoEndpoint}, {@link TemporalUnavailable}
   */
  async exportEndpoint(): Promise<ExportedEndpoint> {
    const { merchantId } = this;
    const endpoint = (await this.gate())?.endpoint;
    if (endpoint === undefined) throw new NoEndpoint(merchantId);
    return { merchantId, ...endpoint };
  }

  /**
   * Sets an endpoint as {@link exportEndpoint} gave it, a rotation under way included. The address and that the secrets
   * open with the keys of this client are checked first.
   * @throws {@link InvalidExport}, {@link InvalidEndpoint}, {@link SecretKeyMissing}, {@link TemporalUnavailable}
   */
  async importEndpoint(exported: unknown, cause: Cause = {}): Promise<EndpointChange> {
    const { next, ...endpoint } = await checkExported(
      exported,
      this.merchantId,
      this.box,
      this.settings.allowHttp,
    );
    const taken = await checkEndpointHost(endpoint.url, this.settings.guard);
    const set = await this.change(setEndpointSignal, { ...endpoint, ...cause });
    const keepOldForMs = next === undefined ? 0 : next.promoteAt - Date.now();
    if (next === undefined) return { ...set, ...taken };
    const rotation = { secret: next.secret, keepOldForMs: Math.max(0, keepOldForMs), ...cause };
    return { ...(await this.change(rotateSecretSignal, rotation)), ...taken };
  }

  private get box(): SecretBox {
    const { secrets } = this.settings;
    if (secrets === undefined) throw new SecretKeyMissing();
    return secrets;
  }

  /**
   * Whether anything is known of this merchant: an endpoint was set once, or a delivery was held.
   * @throws {@link TemporalUnavailable}
   */
  async isKnown(): Promise<boolean> {
    return (await this.gate()) !== undefined;
  }

  /** An operator who misspells an id must not think that it was done. */
  private async mustBeKnown(): Promise<void> {
    if (!(await this.isKnown())) throw new MerchantNotFound(this.merchantId);
  }

  /** @param isSo - whether there is nothing to change; what is on its way may say otherwise, so it is sent all the same. */
  private async change<Message>(
    signal: SignalDefinition<[Message]>,
    message: Message,
    isSo?: (gate: GateView | undefined) => boolean,
  ): Promise<Change> {
    const before = await this.gate();
    const { client } = this.calls;
    const { policy } = this.settings;
    await this.calls.call(
      async () => await signalMerchant(client, this.merchantId, signal, message, { lost: before, policy }),
    );
    if (isSo?.(before) === true) return { applied: true };
    const deadline = Date.now() + APPLIED_WITHIN_MS;
    for (;;) {
      if (((await this.gate())?.version ?? 0) > (before?.version ?? 0)) return { applied: true };
      if (Date.now() >= deadline) return { applied: false };
      await sleep(APPLIED_POLL_MS);
    }
  }

  private async gate(): Promise<GateView | undefined> {
    return (await this.entityDescription())?.memo?.[GATE_MEMO] as GateView | undefined;
  }

  private async entityDescription() {
    return await this.calls.ifFound(() => this.entity().describe());
  }

  private entity() {
    return this.calls.client.workflow.getHandle(merchantWorkflowId(this.merchantId));
  }
}

function headersNeeded(names: readonly string[]): InvalidEndpoint {
  const message =
    `must be given again with another address, since their values open for their own address only: ` +
    `${names.join(', ')}; an empty object does without`;
  return new InvalidEndpoint([{ field: 'headers', message }]);
}
