/** Checks of the way to the endpoint: address, certificate, redirects, connections, time. */
import { performance } from 'node:perf_hooks';
import { isIP } from 'node:net';
import { hostOf } from '../http/origin.ts';
import type { Verdict } from '../policy/verdicts.ts';
import type { Check } from './checks.ts';
import { shakeHands, type Handshake } from './handshake.ts';
import { watchIdleConnection, type IdleConnection } from './idle-connection.ts';
import { answerInWords, type Patient } from './patient.ts';
import type { Finding } from './report.ts';

const DAY_MS = 86_400_000;
const LOOKUP_WITHIN_MS = 5_000;
const handshakeSent = 'a TLS handshake, and nothing over it';

export const connectionChecks: readonly Check[] = [
  {
    id: 'https',
    title: 'The address must be HTTPS',
    section: 'checklist',
    requests: 0,
    needs: 'nothing',
    run({ url }) {
      const sent = 'nothing';
      if (url.protocol === 'https:') return { verdict: 'ok', sent, seen: 'https' };
      return {
        verdict: 'fault',
        sent,
        seen: 'http: webhooks can be read and kept back on the way',
        remedy: 'Serve the webhooks over HTTPS and give that address.',
      };
    },
  },
  {
    id: 'address',
    title: 'The host name must lead to public addresses',
    section: 'troubleshooting',
    requests: 0,
    needs: 'nothing',
    run: checkAddress,
  },
  {
    id: 'reachable',
    title: 'A server must answer at the address',
    section: 'troubleshooting',
    requests: 1,
    needs: 'nothing',
    run({ isNowhere, first: { genuine } }) {
      const sent = 'a signed test event';
      const seen = answerInWords(genuine);
      if ('status' in genuine) {
        if (!isNowhere) return { verdict: 'ok', sent, seen };
        return {
          verdict: 'fault',
          sent,
          seen,
          remedy: 'Check the path of the address, and that it takes POST.',
        };
      }
      if (/^(?:tls|dns)-|^address-blocked$|^timeout$/.test(genuine.code)) {
        return { verdict: 'not-checked', sent, seen: `${seen}: another check tells of it` };
      }
      return { verdict: 'fault', sent, seen, ...hintOf(genuine) };
    },
  },
  {
    id: 'certificate',
    title: 'The certificate must be good, and stay so',
    section: 'troubleshooting',
    requests: 0,
    needs: 'nothing',
    run: checkCertificate,
  },
  {
    id: 'redirect',
    title: 'It must answer by itself, without a redirect',
    section: 'troubleshooting',
    requests: 0,
    needs: 'nothing',
    run({ first: { genuine } }) {
      const sent = 'a signed test event';
      const seen = answerInWords(genuine);
      if (!('status' in genuine)) return { verdict: 'not-checked', sent, seen };
      if (genuine.kind !== 'redirected') return { verdict: 'ok', sent, seen };
      const target = genuine.location === undefined ? 'the final address' : genuine.location;
      return {
        verdict: 'fault',
        sent,
        seen,
        remedy: `Redirects are never followed. Give the address that it leads to: ${target}`,
      };
    },
  },
  {
    id: 'answer-time',
    title: 'It must answer well within 10 s',
    section: 'what-to-answer-and-what-comes-of-it',
    requests: 20,
    needs: 'nothing',
    run: checkAnswerTime,
  },
  {
    id: 'keep-alive',
    title: 'Connections should be kept, or closed with notice',
    section: 'doctor',
    requests: 2,
    needs: 'answer',
    run: checkKeepAlive,
  },
];

/** Checks of what happened during the others. */
export const finalChecks: readonly Check[] = [
  {
    id: 'stability',
    title: 'Every request must be answered',
    section: 'troubleshooting',
    requests: 0,
    needs: 'answer',
    run({ requests: { sent, verdicts } }) {
      const lost = verdicts.filter(({ kind }) => kind === 'network');
      const [first] = lost;
      const about = `${sent} requests in all`;
      if (first === undefined) return { verdict: 'ok', sent: about, seen: 'none was lost' };
      return {
        verdict: 'warning',
        sent: about,
        seen: `${lost.length} without an answer: ${answerInWords(first)}`,
        ...hintOf(first),
      };
    },
  },
  {
    id: 'rate-limit',
    title: 'It should take webhooks as fast as they come',
    section: 'what-to-answer-and-what-comes-of-it',
    requests: 0,
    needs: 'answer',
    run({ requests: { sent, limited, limits } }) {
      const about = `${sent} requests, one each ${limits.paceMs} ms`;
      if (limited === 0) return { verdict: 'ok', sent: about, seen: 'no 429' };
      return {
        verdict: 'warning',
        sent: about,
        seen: `${limited} times 429`,
        remedy:
          'Raise the limit for this path: after an outage 25 webhooks a second come. Give Retry-After with 429.',
      };
    },
  },
  {
    id: 'secret-kept',
    title: 'No answer may give the secret away',
    section: 'checklist',
    requests: 0,
    needs: 'answer',
    run({ requests: { sent, leaks } }) {
      const about = `${sent} requests in all`;
      if (leaks === 0) return { verdict: 'ok', sent: about, seen: 'the secret was in no answer' };
      return {
        verdict: 'fault',
        sent: about,
        seen: `the secret was in ${leaks} answers`,
        remedy: 'Switch debug pages off, and replace the secret: others may have read it.',
      };
    },
  },
];

function hintOf(verdict: Verdict): Pick<Finding, 'remedy'> {
  return 'hint' in verdict && verdict.hint !== undefined ? { remedy: verdict.hint } : {};
}

async function checkAddress({ url, resolver, guard, first: { genuine } }: Patient): Promise<Finding> {
  const host = hostOf(url);
  const sent = isIP(host) === 0 ? `a lookup of ${host}` : 'nothing';
  if ('code' in genuine && /^dns-|^address-blocked$/.test(genuine.code)) {
    return { verdict: 'fault', sent, seen: answerInWords(genuine), ...hintOf(genuine) };
  }
  if (isIP(host) !== 0) return { verdict: 'ok', sent, seen: host };
  const addresses = await resolver.resolve(host, AbortSignal.timeout(LOOKUP_WITHIN_MS)).catch(() => []);
  const refused = addresses.flatMap((address) => guard.refusal(address) ?? []);
  const seen = addresses.slice(0, 8).join(', ');
  if (addresses.length === 0)
    return {
      verdict: 'warning',
      sent,
      seen: 'it was found once, and then not',
      remedy: 'Check all of your DNS servers.',
    };
  if (refused.length === 0) return { verdict: 'ok', sent, seen };
  return {
    verdict: 'warning',
    sent,
    seen: `${seen}; ${refused.join(', ')}`,
    remedy: 'Take the addresses that are not public out of the public DNS.',
  };
}

async function checkCertificate({
  url,
  connector,
  trust,
  requests,
  first: { genuine },
}: Patient): Promise<Finding> {
  const sent = handshakeSent;
  if (url.protocol === 'http:')
    return { verdict: 'not-checked', sent: 'nothing', seen: 'there is none: see https' };
  const isTls = 'code' in genuine && genuine.code.startsWith('tls-');
  if ('code' in genuine && !isTls && genuine.timings?.tlsMs === undefined) {
    return { verdict: 'not-checked', sent: 'nothing', seen: `there is no connection (${genuine.code})` };
  }
  const handshake = await shakeHands(connector, url, trust, requests.limits.timeoutMs).catch(() => undefined);
  const facts = handshake === undefined ? '' : factsOf(handshake);
  if (isTls) {
    return {
      verdict: 'fault',
      sent,
      seen: [answerInWords(genuine), facts].filter(Boolean).join('. '),
      ...hintOf(genuine),
    };
  }
  const [own] = handshake?.chain ?? [];
  if (handshake === undefined || own === undefined) {
    return { verdict: 'not-checked', sent, seen: 'a second handshake did not come about' };
  }
  const leftMs = own.until.getTime() - Date.now();
  // Certificates are renewed by machines with a third of their time left; some live for days only.
  const lifetimeMs = own.until.getTime() - own.from.getTime();
  if (leftMs > Math.min(14 * DAY_MS, lifetimeMs / 6)) return { verdict: 'ok', sent, seen: facts };
  return {
    verdict: 'warning',
    sent,
    seen: facts,
    remedy: 'Renew the certificate now, and find out why it was not renewed by itself.',
  };
}

function factsOf({ protocol, cipher, chain, names }: Handshake): string {
  const [own] = chain;
  const parts = [`${protocol}, ${cipher}`];
  if (own !== undefined) {
    const days = Math.floor((own.until.getTime() - Date.now()) / DAY_MS);
    const left = days < 0 ? `ended ${-days} days ago` : `${days} days left`;
    parts.push(
      `valid until ${own.until.toISOString().slice(0, 10)} (${left})`,
      `for ${names.slice(0, 5).join(', ')}`,
      `chain: ${[own.subject, ...chain.map(({ issuer }) => issuer)].filter((name, nth, all) => name !== all[nth - 1]).join(' ← ')}`,
    );
  }
  return parts.join('; ');
}

async function checkAnswerTime(patient: Patient): Promise<Finding> {
  const { requests, first } = patient;
  const { timeoutMs, samples } = requests.limits;
  const limit = `${timeoutMs / 1_000} s`;
  const slowRemedy = `After ${limit} a webhook counts as failed. Save it to a table or queue of your own, answer 200, and do what takes long afterwards.`;
  const lacks = patient.lacks('acceptance');
  if (lacks !== undefined) {
    const sent = 'a signed test event';
    if (first.genuine.kind !== 'timeout') return { verdict: 'not-checked', sent, seen: lacks };
    return { verdict: 'fault', sent, seen: answerInWords(first.genuine), remedy: slowRemedy };
  }
  const startedAt = performance.now();
  // Slow ones are not asked as often.
  for (let nth = 0; nth < samples && performance.now() - startedAt < 3 * timeoutMs; nth++) {
    await patient.send({ name: 'time' });
  }
  const timeouts = requests.verdicts.filter(({ kind }) => kind === 'timeout').length;
  const times = requests.verdicts.flatMap(({ kind, durationMs }) =>
    kind === 'delivered' || kind === 'timeout' ? durationMs : [],
  );
  const all = times.length > 0 ? times : requests.verdicts.map(({ durationMs }) => durationMs);
  const [p50, p95, slowest] = [percentile(all, 0.5), percentile(all, 0.95), percentile(all, 1)];
  const sent = `${all.length} test events that were to be accepted`;
  const seen = `p50 ${p50} ms, p95 ${p95} ms, slowest ${slowest} ms`;
  if (timeouts > 0)
    return {
      verdict: 'fault',
      sent,
      seen: `${seen}; ${timeouts} had no answer within ${limit}`,
      remedy: slowRemedy,
    };
  if (p95 >= timeoutMs / 2 || slowest >= 0.8 * timeoutMs)
    return { verdict: 'warning', sent, seen, remedy: slowRemedy };
  if (p95 < timeoutMs / 5) return { verdict: 'ok', sent, seen };
  return { verdict: 'advice', sent, seen, remedy: slowRemedy };
}

function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}

async function checkKeepAlive({ connector, requests }: Patient): Promise<Finding> {
  const sent = 'a signed test event, and another one on the same connection after a while';
  let seen: IdleConnection;
  try {
    seen = await watchIdleConnection(connector, requests);
  } catch (error) {
    return { verdict: 'not-checked', sent, seen: `the connection broke: ${String(error)}` };
  }
  const { closes, keepsSeconds, closedAfterMs, secondStatus } = seen;
  const lost = requests.lostOnReuse === 0 ? '' : `; ${requests.lostOnReuse} other requests were lost so`;
  if (closedAfterMs !== undefined) {
    const announced = keepsSeconds === undefined ? 'without saying so' : `though it says ${keepsSeconds} s`;
    return {
      verdict: 'warning',
      sent,
      seen: `it closed the idle connection after ${(closedAfterMs / 1_000).toFixed(1)} s, ${announced}${lost}`,
      remedy:
        'A webhook that is written at that moment is lost and has to come again. Keep idle connections for more than 4 s, send Keep-Alive: timeout=… or Connection: close, and give the server behind a proxy a longer time than the proxy has.',
    };
  }
  if (closes || (keepsSeconds !== undefined && keepsSeconds <= 2)) {
    return {
      verdict: 'advice',
      sent,
      seen: closes ? 'it answers with Connection: close' : `it keeps connections for ${keepsSeconds} s only`,
      remedy: 'Keep connections open: without that each webhook costs a TCP and a TLS handshake.',
    };
  }
  const kept = keepsSeconds === undefined ? '' : ` (it says ${keepsSeconds} s)`;
  return { verdict: 'ok', sent, seen: `the connection was kept${kept} and used again: HTTP ${secondStatus}` };
}
