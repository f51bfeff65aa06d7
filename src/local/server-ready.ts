import { setTimeout as delay } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { acceptsConnections } from './free-port.ts';
import { LocalSearchAttributeConflict } from './server-errors.ts';

/** The API's number for each type (`temporal.api.enums.v1.IndexedValueType`). */
const TYPE_NUMBERS = {
  Text: 1,
  Keyword: 2,
  Int: 3,
  Double: 4,
  Bool: 5,
  Datetime: 6,
  KeywordList: 7,
} as const;

/** A search attribute's type, as the Temporal CLI spells it. */
export type LocalSearchAttributeType = keyof typeof TYPE_NUMBERS;

interface Readiness {
  readonly host: string;
  readonly port: number;
  readonly uiPort: number | undefined;
  readonly namespace: string;
  readonly searchAttributes: Readonly<Record<string, LocalSearchAttributeType>>;
  readonly retentionDays: number;
  /** Gives up the waiting. */
  readonly signal: AbortSignal;
}

const POLL_MS = 20;
const SECONDS_PER_DAY = 24 * 60 * 60;

/**
 * Waits until the frontend answers, the namespace keeps closed workflows as long as wanted, and workflows can be started
 * with the search attributes. When `signal` fires first, rejects with the last thing that went wrong.
 * @throws LocalSearchAttributeConflict if the kept state has one of the attributes by another type.
 */
export async function awaitUsable(readiness: Readiness): Promise<void> {
  const { host, port, uiPort, signal } = readiness;
  await untilItWorks(signal, () => mustListen(host, port));
  const connection = await untilItWorks(signal, () => connect(`${host}:${port}`));
  try {
    await untilItWorks(signal, () =>
      connection.withAbortSignal(signal, () => prepareNamespace(connection, readiness)),
    );
  } finally {
    await connection.close();
  }
  if (uiPort !== undefined) await untilItWorks(signal, () => mustListen(host, uiPort));
}

async function untilItWorks<T>(signal: AbortSignal, attempt: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (signal.aborted || error instanceof LocalSearchAttributeConflict) throw error;
    }
    await delay(POLL_MS);
  }
}

async function mustListen(host: string, port: number): Promise<void> {
  if (!(await acceptsConnections(host, port))) throw new Error(`nothing listens on ${host}:${port}`);
}

function connect(address: string): Promise<Connection> {
  return Connection.connect({
    address,
    connectTimeout: 2_000,
    // A proxy for the outside world has no way back to this machine.
    channelArgs: { 'grpc.enable_http_proxy': 0 },
  });
}

/** Every step may be done again. */
async function prepareNamespace(connection: Connection, readiness: Readiness): Promise<void> {
  await setRetention(connection, readiness);
  await addMissingSearchAttributes(connection, readiness);
  const names = Object.keys(readiness.searchAttributes);
  if (names.length === 0) return;
  // A query is refused as long as a start with the attributes would be; a trial start would leave a workflow behind.
  const query = names.map((name) => `${name} IS NOT NULL`).join(' AND ');
  await connection.workflowService.countWorkflowExecutions({ namespace: readiness.namespace, query });
}

/** The server creates a namespace with a retention of one day, and has no flag for another. */
async function setRetention(connection: Connection, { namespace, retentionDays }: Readiness): Promise<void> {
  const { config } = await connection.workflowService.describeNamespace({ namespace });
  if (Number(config?.workflowExecutionRetentionTtl?.seconds) === retentionDays * SECONDS_PER_DAY) return;
  await connection.workflowService.updateNamespace({
    namespace,
    config: { workflowExecutionRetentionTtl: msToTs(retentionDays * SECONDS_PER_DAY * 1000) },
  });
}

/** `--search-attribute` works only when the namespace is created: on a kept state file the server ignores it. */
async function addMissingSearchAttributes(
  connection: Connection,
  { namespace, searchAttributes }: Readiness,
): Promise<void> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  const missing: Record<string, (typeof TYPE_NUMBERS)[LocalSearchAttributeType]> = {};
  for (const [name, type] of Object.entries(searchAttributes)) {
    const kept = customAttributes[name];
    if (kept === undefined) {
      missing[name] = TYPE_NUMBERS[type];
    } else if (kept !== TYPE_NUMBERS[type]) {
      throw new LocalSearchAttributeConflict(name, type, typeName(kept));
    }
  }
  if (Object.keys(missing).length === 0) return;
  await connection.operatorService.addSearchAttributes({ namespace, searchAttributes: missing });
}

function typeName(type: number): string {
  return Object.entries(TYPE_NUMBERS).find(([, number]) => number === type)?.[0] ?? `type ${type}`;
}
