import { loadClientConnectConfig } from '@temporalio/envconfig';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import * as v from 'valibot';
import type { NoticeHook } from './activities/notices.ts';
import { bundleHeader, bundleName } from './bundle-file.ts';
import { CODEC_VARIABLES } from './codec-server/variables.ts';
import { ConfigurationError } from './configuration-error.ts';
import { codecOf, encryptionOf, type Encryption } from './encryption/encryption.ts';
import { networkProblem, networksOf } from './http/address-guard.ts';
import { proxyProblem } from './http/egress-proxy.ts';
import { certificatesOf } from './http/tls.ts';
import type { KeySource } from './key-list.ts';
import { SecretBox } from './secrets.ts';
import { traceProblems, tracesWanted } from './trace-settings.ts';
import { VERSION } from './version.ts';
import type { Versioning } from './versioning.ts';
import type { TemporalConnection } from './workers.ts';
import { messageOf } from './message-of.ts';

/** What a worker takes from its environment. */
export interface WorkerConfiguration {
  readonly connection: TemporalConnection & { readonly address: string };
  readonly namespace: string;
  readonly secretKeys: KeySource;
  readonly encryption: Encryption;
  readonly maxConcurrentAttempts: number;
  readonly allowedNetworks: readonly string[];
  readonly trustedCertificates: readonly string[];
  readonly egressProxy?: URL;
  readonly shutdownGraceMs: number;
  readonly logLevel: LogLevel;
  /** Where metrics are served; absent if they are not. */
  readonly metricsAddress?: ListenAddress;
  readonly metrics?: { readonly byMerchant: boolean };
  readonly notices?: { readonly hook: 'operator' | NoticeHook; readonly heldAfterMs: number };
  /** Present if Temporal is to send tasks to one version of the workers only. */
  readonly versioning?: Versioning;
  /** Where probes are answered; absent if they are not. */
  readonly healthAddress?: ListenAddress;
  /** Workflow code that was bundled beforehand, by the path of its file. */
  readonly workflowBundle?: { readonly codePath: string };
  readonly maxCachedWorkflows: number;
  readonly acceptShortRetention: boolean;
  /** Present if deliveries are traced. */
  readonly traces?: { readonly sendTraceparent: boolean };
}

/** Where a process listens: an IP address of this machine, and a port. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

export type LogLevel = (typeof LOG_LEVELS)[number];

/** From the most talkative to the least. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error'] as const;

const wholeNumber = (least: number, most: number) =>
  v.pipe(
    v.string(),
    v.regex(/^\d+$/, `must be a whole number from ${least} to ${most}`),
    v.transform(Number),
    v.minValue(least, `must be at least ${least}`),
    v.maxValue(most, `must be at most ${most}`),
  );

const flag = v.pipe(
  v.picklist(['true', 'false'], 'must be true or false'),
  v.transform((text) => text === 'true'),
);

const listenAddress = (port: number) =>
  v.pipe(
    v.string(),
    v.transform(addressOf),
    v.check(
      (address) => address !== undefined,
      `must be an IP address and a port, such as 127.0.0.1:${port}, 0.0.0.0:${port} or [::]:${port}`,
    ),
  );

const variables = {
  HOOKLADDER_SECRET_KEYS: v.optional(v.string()),
  HOOKLADDER_SECRET_KEYS_FILE: v.optional(v.string()),
  HOOKLADDER_ENCRYPTION: v.optional(v.string(), 'on'),
  HOOKLADDER_ENCRYPTION_KEYS: v.optional(v.string()),
  HOOKLADDER_ENCRYPTION_KEYS_FILE: v.optional(v.string()),
  HOOKLADDER_ENCRYPTION_KEYS_MODULE: v.optional(v.string()),
  HOOKLADDER_MAX_CONCURRENT_ATTEMPTS: v.optional(wholeNumber(1, 10_000), '100'),
  HOOKLADDER_ALLOWED_NETWORKS: v.optional(v.string()),
  HOOKLADDER_CA_FILE: v.optional(v.string()),
  HOOKLADDER_EGRESS_PROXY: v.optional(v.string()),
  HOOKLADDER_SHUTDOWN_GRACE_SECONDS: v.optional(wholeNumber(1, 3_600), '30'),
  HOOKLADDER_MAX_CACHED_WORKFLOWS: v.optional(wholeNumber(10, 100_000), '500'),
  HOOKLADDER_WORKFLOW_BUNDLE: v.optional(v.string()),
  HOOKLADDER_SHORT_RETENTION: v.optional(
    v.picklist(['refuse', 'accept'], 'must be refuse or accept'),
    'refuse',
  ),
  HOOKLADDER_HEALTH_ADDRESS: v.optional(listenAddress(9465)),
  HOOKLADDER_METRICS_ADDRESS: v.optional(listenAddress(9464)),
  HOOKLADDER_METRICS_BY_MERCHANT: v.optional(flag, 'false'),
  HOOKLADDER_NOTICES: v.optional(v.string()),
  HOOKLADDER_NOTICE_HELD_MINUTES: v.optional(wholeNumber(1, 43_200), '60'),
  HOOKLADDER_DEPLOYMENT_NAME: v.optional(
    v.pipe(v.string(), v.regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/, 'must be 1 to 63 of A-Z a-z 0-9 _ -')),
  ),
  HOOKLADDER_BUILD_ID: v.optional(
    v.pipe(v.string(), v.regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'must be 1 to 63 of A-Z a-z 0-9 . _ -')),
  ),
  HOOKLADDER_LOG_LEVEL: v.optional(
    v.picklist(LOG_LEVELS, `must be one of ${LOG_LEVELS.join(', ')}`),
    'info' satisfies LogLevel,
  ),
  HOOKLADDER_SEND_TRACEPARENT: v.optional(flag, 'false'),
};

/** The variables and their defaults, for people. */
export const VARIABLES = [
  ...Object.entries(variables).map(([name, schema]) => ({ name, fallback: schema.default ?? 'none' })),
  ...CODEC_VARIABLES,
];

/**
 * Reads a worker's environment. Variables that begin with `HOOKLADDER_` and are not known are refused: they
 * are misspelt more often than not.
 * @throws {@link ConfigurationError} that names every variable that is wrong.
 */
export async function readConfiguration(environment: NodeJS.ProcessEnv): Promise<WorkerConfiguration> {
  const ours = Object.fromEntries(
    Object.entries(environment).filter(([name, value]) => name.startsWith('HOOKLADDER_') && value !== ''),
  );
  const problems = Object.keys(ours)
    .filter((name) => VARIABLES.every((known) => known.name !== name))
    .map((name) => `${name} is not known; known are ${Object.keys(variables).join(', ')}`);
  const parsed = v.safeParse(v.object(variables), ours);
  if (!parsed.success) {
    problems.push(...parsed.issues.map((issue) => `${v.getDotPath(issue)} ${issue.message}`));
  }
  const secretKeys = await readKeySource(ours, problems);
  const encryption = await readEncryption(ours, problems);
  const allowedNetworks = readNetworks(ours, problems);
  const trustedCertificates = await readCertificates(ours, problems);
  const egressProxy = readProxy(ours, problems);
  const hook = await readNoticeHook(ours, problems);
  const traces = readTraces(environment, problems);
  const versioning = readVersioning(ours, problems);
  const workflowBundle = await readBundle(ours, problems, traces);
  const temporal = readTemporal(environment, problems);
  const missing = secretKeys === undefined || encryption === undefined || temporal === undefined;
  if (!parsed.success || missing || problems.length > 0) {
    throw new ConfigurationError(problems);
  }
  const values = parsed.output;
  const metricsAddress = values.HOOKLADDER_METRICS_ADDRESS;
  const healthAddress = values.HOOKLADDER_HEALTH_ADDRESS;
  return {
    ...temporal,
    secretKeys,
    encryption,
    maxConcurrentAttempts: values.HOOKLADDER_MAX_CONCURRENT_ATTEMPTS,
    allowedNetworks,
    trustedCertificates,
    ...(egressProxy === undefined ? {} : { egressProxy }),
    shutdownGraceMs: values.HOOKLADDER_SHUTDOWN_GRACE_SECONDS * 1_000,
    logLevel: values.HOOKLADDER_LOG_LEVEL,
    maxCachedWorkflows: values.HOOKLADDER_MAX_CACHED_WORKFLOWS,
    acceptShortRetention: values.HOOKLADDER_SHORT_RETENTION === 'accept',
    ...(workflowBundle === undefined ? {} : { workflowBundle }),
    ...(healthAddress === undefined ? {} : { healthAddress }),
    ...(hook === undefined
      ? {}
      : { notices: { hook, heldAfterMs: values.HOOKLADDER_NOTICE_HELD_MINUTES * 60_000 } }),
    ...(metricsAddress === undefined
      ? {}
      : { metricsAddress, metrics: { byMerchant: values.HOOKLADDER_METRICS_BY_MERCHANT } }),
    ...(versioning === undefined ? {} : { versioning }),
    ...(traces ? { traces: { sendTraceparent: values.HOOKLADDER_SEND_TRACEPARENT } } : {}),
  };
}

async function readKeySource(ours: NodeJS.ProcessEnv, problems: string[]): Promise<KeySource | undefined> {
  const { HOOKLADDER_SECRET_KEYS: keys, HOOKLADDER_SECRET_KEYS_FILE: keysFile } = ours;
  if ((keys === undefined) === (keysFile === undefined)) {
    problems.push('HOOKLADDER_SECRET_KEYS_FILE or HOOKLADDER_SECRET_KEYS must be set, and only one of them');
    return undefined;
  }
  const [name, source]: [string, KeySource] =
    keys === undefined
      ? ['HOOKLADDER_SECRET_KEYS_FILE', { keysFile: keysFile ?? '' }]
      : ['HOOKLADDER_SECRET_KEYS', { keys }];
  try {
    await new SecretBox(source).seal('start', 'probe');
    return source;
  } catch (error) {
    problems.push(`${name}: ${messageOf(error)}`);
    return undefined;
  }
}

async function readEncryption(ours: NodeJS.ProcessEnv, problems: string[]): Promise<Encryption | undefined> {
  try {
    const encryption = encryptionOf(ours);
    await codecOf(encryption).encode([{}]);
    return encryption;
  } catch (error) {
    const message = messageOf(error);
    const names = ['KEYS_FILE', 'KEYS', 'KEYS_MODULE'].map((name) => `HOOKLADDER_ENCRYPTION_${name}`);
    const name = names.find((each) => ours[each] !== undefined);
    problems.push(message.includes('HOOKLADDER_') || name === undefined ? message : `${name}: ${message}`);
    return undefined;
  }
}

async function readNoticeHook(
  { HOOKLADDER_NOTICES: given }: NodeJS.ProcessEnv,
  problems: string[],
): Promise<'operator' | NoticeHook | undefined> {
  if (given === undefined || given === 'operator') return given;
  try {
    const loaded = (await import(pathToFileURL(resolve(given)).href)) as { notice?: unknown };
    if (typeof loaded.notice === 'function') return loaded.notice as NoticeHook;
    throw new Error('there is no such function');
  } catch (error) {
    const why = messageOf(error);
    problems.push(
      `HOOKLADDER_NOTICES must be "operator" or the path of a module that exports a function "notice"; ${given}: ${why}`,
    );
    return undefined;
  }
}

/** One of another version would not replay what this one's workflows have done, or not know what it sends. */
async function readBundle(
  { HOOKLADDER_WORKFLOW_BUNDLE: folder }: NodeJS.ProcessEnv,
  problems: string[],
  traces: boolean,
): Promise<WorkerConfiguration['workflowBundle']> {
  if (folder === undefined) return undefined;
  const codePath = resolve(folder, bundleName(traces));
  try {
    const { version } = bundleHeader(await readFile(codePath, 'utf8'));
    if (version === VERSION) return { codePath };
    problems.push(
      `HOOKLADDER_WORKFLOW_BUNDLE ${folder} was made by ${version ?? 'an unknown version'}, not ${VERSION}: make it anew`,
    );
  } catch (error) {
    problems.push(`HOOKLADDER_WORKFLOW_BUNDLE ${folder}: ${messageOf(error)}`);
  }
  return undefined;
}

/** Of `host:port`; an IPv6 address stands in brackets. */
function addressOf(text: string): ListenAddress | undefined {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const [host, port] = [bracketed ?? plain ?? '', Number(digits)];
  const isAddress = isIP(host) === (bracketed === undefined ? 4 : 6);
  return isAddress && port >= 1 && port <= 65_535 ? { host, port } : undefined;
}

function readNetworks(
  { HOOKLADDER_ALLOWED_NETWORKS: text }: NodeJS.ProcessEnv,
  problems: string[],
): string[] {
  const allow = networksOf(text);
  const problem = networkProblem(allow);
  if (problem !== undefined) problems.push(`HOOKLADDER_ALLOWED_NETWORKS: ${problem}`);
  return allow;
}

async function readCertificates(
  { HOOKLADDER_CA_FILE: file }: NodeJS.ProcessEnv,
  problems: string[],
): Promise<string[]> {
  if (file === undefined) return [];
  try {
    return certificatesOf(await readFile(file, 'utf8'));
  } catch (error) {
    problems.push(`HOOKLADDER_CA_FILE ${file}: ${messageOf(error)}`);
    return [];
  }
}

function readProxy(
  { HOOKLADDER_EGRESS_PROXY: text }: NodeJS.ProcessEnv,
  problems: string[],
): URL | undefined {
  if (text === undefined) return undefined;
  const problem = proxyProblem(text);
  if (problem === undefined) return new URL(text);
  problems.push(`HOOKLADDER_EGRESS_PROXY ${problem}`);
  return undefined;
}

function readVersioning(
  { HOOKLADDER_DEPLOYMENT_NAME: deploymentName, HOOKLADDER_BUILD_ID: buildId }: NodeJS.ProcessEnv,
  problems: string[],
): Versioning | undefined {
  if (deploymentName !== undefined) {
    return { deploymentName, ...(buildId === undefined ? {} : { buildId }) };
  }
  if (buildId !== undefined) {
    problems.push('HOOKLADDER_BUILD_ID needs HOOKLADDER_DEPLOYMENT_NAME: set it, or leave both out');
  }
  return undefined;
}

function readTraces(environment: NodeJS.ProcessEnv, problems: string[]): boolean {
  const wanted = tracesWanted(environment);
  if (wanted) problems.push(...traceProblems(environment));
  else if (environment['HOOKLADDER_SEND_TRACEPARENT'] === 'true') {
    problems.push(
      'HOOKLADDER_SEND_TRACEPARENT needs traces: set OTEL_EXPORTER_OTLP_ENDPOINT, or leave it out',
    );
  }
  return wanted;
}

function readTemporal(environment: NodeJS.ProcessEnv, problems: string[]) {
  try {
    const { connectionOptions, namespace } = loadClientConnectConfig({
      overrideEnvVars: definedOnly(environment),
    });
    const { address = 'localhost:7233', tls, apiKey, metadata } = connectionOptions;
    return {
      connection: {
        address,
        ...(tls === undefined ? {} : { tls }),
        ...(typeof apiKey === 'string' ? { apiKey } : {}),
        ...(metadata === undefined ? {} : { metadata }),
      } as WorkerConfiguration['connection'],
      namespace: namespace ?? 'default',
    };
  } catch (error) {
    problems.push(`TEMPORAL_…: ${messageOf(error)}`);
    return undefined;
  }
}

function definedOnly(environment: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}
