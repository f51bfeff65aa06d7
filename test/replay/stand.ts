import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { Hookladder, type DeliveryHandle, type MerchantHandle, type Webhook } from '../../src/client.ts';
import { merchantWorkflowId } from '../../src/contract.ts';
import type { LocalServer } from '../../src/local/server.ts';
import { findTemporalBinary } from '../../src/local/temporal-binary.ts';
import { patientRetry } from '../../src/patient-retry.ts';
import type { PolicyOverrides } from '../../src/policy/policy.ts';
import { startWorkers, type RunningWorkers, type WorkersOptions } from '../../src/workers.ts';
import { startReceiver, type Answer, type Receiver } from '../support/receiver.ts';
import { startTestServer } from '../support/server.ts';
import { spawnWorker, type WorkerProcess } from '../support/spawn-worker.ts';
import { writeRecording } from './recording.ts';

const LOOPBACK = ['127.0.0.0/8'];
const SECRET_KEYS = { keys: `recorded:${Buffer.alloc(32, 7).toString('base64')}` };
const PATIENCE_MS = 60_000;
const LOOK_MS = 50;

/** All that the recorder needs: a Temporal server, a receiver, clients. Payloads are in clear, to be read later. */
export class Stand {
  readonly temporal: Client;
  readonly receiver: Receiver;
  readonly server: LocalServer;
  private readonly folder: string;
  private readonly answers = new Map<string, (nth: number) => Answer>();
  private readonly recorded: string[] = [];

  private constructor(server: LocalServer, connection: Connection, receiver: Receiver, folder: string) {
    this.server = server;
    this.temporal = new Client({ connection });
    this.receiver = receiver;
    this.folder = folder;
    receiver.answer((nth, { path }) => this.answers.get(path.slice(1))?.(nth) ?? 200);
  }

  static async open(folder: string): Promise<Stand> {
    const { path } = await findTemporalBinary({ log: (line) => console.error(line) });
    const server = await startTestServer(path);
    const connection = await Connection.connect({ address: server.address, interceptors: [patientRetry()] });
    return new Stand(server, connection, await startReceiver(), folder);
  }

  async close(): Promise<void> {
    await this.receiver.close();
    await this.temporal.connection.close();
    await this.server.stop();
  }

  async startWorkers(options: Partial<WorkersOptions> = {}): Promise<RunningWorkers> {
    return await startWorkers({
      connection: { address: this.server.address },
      namespace: 'default',
      secretKeys: SECRET_KEYS,
      encryption: 'off',
      allowedNetworks: LOOPBACK,
      shutdownGraceMs: 5_000,
      ...options,
    });
  }

  /** A worker of its own process, to be killed. */
  async startWorkerToKill(): Promise<WorkerProcess> {
    return await spawnWorker({
      TEMPORAL_ADDRESS: this.server.address,
      HOOKLADDER_SECRET_KEYS: SECRET_KEYS.keys,
      HOOKLADDER_ENCRYPTION: 'off',
      HOOKLADDER_ALLOWED_NETWORKS: LOOPBACK.join(','),
    });
  }

  hooks(policy?: PolicyOverrides, options: ConstructorParameters<typeof Hookladder>[0] = {}): Hookladder {
    return new Hookladder({
      client: this.temporal,
      secretKeys: SECRET_KEYS,
      encryption: 'off',
      allowHttp: true,
      allowedNetworks: LOOPBACK,
      ...(policy === undefined ? {} : { policy }),
      ...options,
    });
  }

  /** A merchant with an address, whose n-th request is answered so. */
  async merchant(
    merchantId: string,
    answers: (nth: number) => Answer = () => 200,
    hooks = this.hooks(),
  ): Promise<MerchantHandle> {
    this.answer(merchantId, answers);
    const merchant = hooks.merchant(merchantId);
    await merchant.setEndpoint(this.endpoint(merchantId));
    return merchant;
  }

  endpoint(merchantId: string) {
    return { url: this.receiver.url + merchantId, secret: 'a secret of 20 bytes' };
  }

  answer(merchantId: string, answers: (nth: number) => Answer): void {
    this.answers.set(merchantId, answers);
  }

  received(merchantId: string): number {
    return this.receiver.received.filter(({ path }) => path === `/${merchantId}`).length;
  }

  async until(what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
    const deadline = Date.now() + PATIENCE_MS;
    while (!(await isSo())) {
      if (Date.now() > deadline) throw new Error(`not so within ${PATIENCE_MS / 1_000} s: ${what}`);
      await sleep(LOOK_MS);
    }
  }

  async untilState(delivery: DeliveryHandle, state: string): Promise<void> {
    await this.until(
      `${delivery.workflowId} is ${state}`,
      async () => (await delivery.status()).state === state,
    );
  }

  async untilHeld(merchant: MerchantHandle, held: number): Promise<void> {
    await this.until(
      `${merchant.merchantId} holds ${held}`,
      async () => (await merchant.describe()).held === held,
    );
  }

  async untilCircuit(merchant: MerchantHandle, state: string): Promise<void> {
    await this.until(`${merchant.merchantId} is ${state}`, async () => {
      return (await merchant.breaker())?.gate.circuit.state === state;
    });
  }

  async untilTransition(merchant: MerchantHandle, event: string): Promise<void> {
    await this.until(`${merchant.merchantId}: ${event}`, async () => {
      const { transitions = [] } = (await merchant.breaker()) ?? {};
      return transitions.some((transition) => transition.event === event);
    });
  }

  /** Keeps a workflow as it is now. */
  async record(name: string, workflowId: string, runId?: string): Promise<void> {
    if (this.recorded.includes(name)) throw new Error(`${name} is recorded twice`);
    this.recorded.push(name);
    const history = await this.temporal.workflow.getHandle(workflowId, runId).fetchHistory();
    await writeRecording(this.folder, name, history);
  }

  async recordMerchant(
    name: string,
    { merchantId }: Pick<Webhook, 'merchantId'>,
    runId?: string,
  ): Promise<void> {
    await this.record(`merchant.${name}`, merchantWorkflowId(merchantId), runId);
  }

  async recordDelivery(name: string, { workflowId }: DeliveryHandle): Promise<void> {
    await this.record(`delivery.${name}`, workflowId);
  }

  /** When it has ended. */
  async recordEnded(name: string, delivery: DeliveryHandle): Promise<void> {
    await delivery.result();
    await this.recordDelivery(name, delivery);
  }

  /** One that fails by its input. */
  async recordRefused(name: string, workflowId: string): Promise<void> {
    await this.until(`${workflowId} has failed`, async () => {
      return (await this.temporal.workflow.getHandle(workflowId).describe()).status.name === 'FAILED';
    });
    await this.record(name, workflowId);
  }

  get count(): number {
    return this.recorded.length;
  }
}
