import { checkEndpointSettings } from '../endpoints.ts';
import { AddressGuard } from '../http/address-guard.ts';
import { Connector } from '../http/connector.ts';
import { EgressProxy } from '../http/egress-proxy.ts';
import { Resolver } from '../http/resolver.ts';
import { Sender } from '../http/sender.ts';
import { trusted } from '../http/tls.ts';
import { answerOf, checks, probe, secretOfNobody, type Check } from './checks.ts';
import { Patient, type Echo, type FirstAnswers } from './patient.ts';
import {
  CHECK_VERDICTS,
  type CheckResult,
  type CheckVerdict,
  type DoctorReport,
  type Finding,
} from './report.ts';
import { defaultLimits, TestRequests, TimeIsUp, type Limits } from './requests.ts';

/** What is examined, and how. */
export interface Examination {
  /** https, or http, which is a finding. */
  readonly url: string;
  /** The signing secret of the endpoint. It is never told. */
  readonly secret: string;
  /** Custom headers of the endpoint; their values are never told. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Networks that are not public and may be reached, as CIDRs. */
  readonly allowedNetworks?: readonly string[] | undefined;
  /** Certificates in PEM that are trusted beside the usual roots. */
  readonly trustedCertificates?: readonly string[] | undefined;
  readonly egressProxy?: URL | undefined;
  /** Type of the test events; `hookladder.test` by default. */
  readonly type?: string | undefined;
  /** Ids of the checks to make; all by default. */
  readonly only?: readonly string[] | undefined;
  /** Ids of checks to leave out. */
  readonly skip?: readonly string[] | undefined;
  readonly limits?: Partial<Limits>;
  /** The published form of docs/receivers.md. */
  readonly docs?: string | undefined;
  /** Told before each check. */
  readonly onCheck?: (check: Check, nth: number, of: number) => void;
}

/** Genuine, genuine again if the first one was not answered in time, forged, echo. */
const FIRST_REQUESTS = 4;

/** The checks that will be made. */
export function chosenChecks({ only, skip = [] }: Pick<Examination, 'only' | 'skip'>): readonly Check[] {
  return checks.filter(({ id }) => (only === undefined || only.includes(id)) && !skip.includes(id));
}

/** How many requests an examination makes at most, and how long it takes at most, in milliseconds. */
export function extentOf(examination: Examination): { readonly requests: number; readonly withinMs: number } {
  const { timeoutMs, totalMs } = { ...defaultLimits, ...examination.limits };
  const requests = chosenChecks(examination).reduce((sum, check) => sum + check.requests, FIRST_REQUESTS);
  return { requests, withinMs: totalMs + timeoutMs };
}

/**
 * Examines a live endpoint: sends it test events, genuine and forged, and tells what is wrong with what comes back.
 * @throws {@link InvalidEndpoint} for an address or secret that no endpoint can have; SendingFault if nothing can be
 * sent from here (R6).
 */
export async function examine(examination: Examination): Promise<DoctorReport> {
  const {
    url,
    secret,
    headers = {},
    allowedNetworks = [],
    trustedCertificates = [],
    egressProxy,
  } = examination;
  const endpoint = checkEndpointSettings({ url, secret, headers }, true);
  const guard = new AddressGuard({ allow: allowedNetworks });
  const trust = trusted(trustedCertificates);
  const resolver = new Resolver();
  const proxy = egressProxy && new EgressProxy(egressProxy, resolver, trust);
  const connector = new Connector({ guard, resolver, trust, proxy });
  const sender = new Sender({ guard, trustedCertificates, egressProxy });
  const limits = { ...defaultLimits, ...examination.limits };
  const requests = new TestRequests(sender, endpoint, limits, examination.type);
  const startedAt = new Date();
  try {
    const first = await firstAnswers(requests);
    requests.deadline = startedAt.getTime() + limits.totalMs;
    const patient = new Patient({ requests, first, connector, resolver, guard, trust });
    const results = await makeChecks(patient, examination);
    return {
      format: 'hookladder-doctor.v1',
      url: endpoint.url,
      run: requests.run,
      startedAt: startedAt.toISOString(),
      durationMs: Date.now() - startedAt.getTime(),
      requests: requests.sent,
      ...(first.echo === undefined ? {} : { kit: first.echo.receiver }),
      ...verdictOf(results),
      checks: results,
    };
  } finally {
    sender.close();
  }
}

async function firstAnswers(requests: TestRequests): Promise<FirstAnswers> {
  let genuine = await requests.send({ name: 'genuine' });
  // A server that sleeps while nobody comes is woken by the first request.
  if (genuine.kind === 'timeout') genuine = await requests.send({ name: 'genuine' });
  if (!('status' in genuine)) return { genuine };
  const forged = await requests.send({ name: 'forged', secret: secretOfNobody() });
  const answer = answerOf(await requests.send({ name: 'echo', body: probe('echo') }));
  const isKit = answer?.['receiver']?.startsWith('hookladder/') === true;
  return { genuine, forged, ...(isKit ? { echo: answer as unknown as Echo } : {}) };
}

async function makeChecks(patient: Patient, examination: Examination): Promise<CheckResult[]> {
  const chosen = chosenChecks(examination);
  const results: CheckResult[] = [];
  for (const [nth, check] of chosen.entries()) {
    examination.onCheck?.(check, nth, chosen.length);
    const { id, title, section } = check;
    const see = `${examination.docs ?? 'docs/receivers.md'}#${section}`;
    results.push({ id, title, ...(await findingOf(check, patient)), see });
  }
  return results;
}

async function findingOf(check: Check, patient: Patient): Promise<Finding> {
  const lacks = patient.lacks(check.needs);
  if (lacks !== undefined) return notChecked(lacks);
  try {
    return await check.run(patient);
  } catch (error) {
    if (error instanceof TimeIsUp) return notChecked('the time of the examination was up');
    throw error;
  }
}

function notChecked(seen: string): Finding {
  return { verdict: 'not-checked', sent: 'nothing', seen };
}

function verdictOf(results: readonly CheckResult[]): Pick<DoctorReport, 'verdict' | 'counts'> {
  const count = (verdict: CheckVerdict) => results.filter((each) => each.verdict === verdict).length;
  const counts = Object.fromEntries(CHECK_VERDICTS.map((each) => [each, count(each)]));
  const verdict = count('fault') > 0 ? 'fault' : count('warning') > 0 ? 'warning' : 'ok';
  return { verdict, counts: counts as DoctorReport['counts'] };
}
