/** Checks of what the endpoint does with webhooks, and the list of all. */
import { createHmac, randomBytes } from 'node:crypto';
import { MAX_BODY_BYTES, TEST_EVENT } from '../contract.ts';
import type { Verdict } from '../policy/verdicts.ts';
import { PROBE_EVENT } from '../receiver/receiver.ts';
import { connectionChecks, finalChecks } from './connection-checks.ts';
import { answerInWords, judged, type Need, type Patient } from './patient.ts';
import type { Finding } from './report.ts';
import type { TestEvent } from './requests.ts';

/** One thing to look at. */
export interface Check {
  /** Stable. */
  readonly id: string;
  readonly title: string;
  /** Of docs/receivers.md, where it is explained. */
  readonly section: string;
  /** At most. */
  readonly requests: number;
  readonly needs: Need;
  run(patient: Patient): Promise<Finding> | Finding;
}

const HOUR_S = 3_600;
const handleOnce =
  'Keep the id under a unique key, in the transaction of the handler; answer 200 if it is there already.';
const verifyRaw =
  'Take the HMAC over the bytes as they came, before anything parses them; express.json() and the like keep them only if they are told to.';
const noKit = 'it is not the receiver kit, so this cannot be seen from outside';

const signatureChecks: readonly Check[] = [
  {
    id: 'signature-right',
    title: 'A genuine webhook must be accepted',
    section: 'what-arrives',
    requests: 3,
    needs: 'answer',
    run: checkRightSignature,
  },
  {
    id: 'signature-wrong',
    title: 'A forged webhook must be refused',
    section: 'checklist',
    requests: 1,
    needs: 'acceptance',
    run(patient) {
      const { genuine, forged } = patient.first;
      const sent = 'a test event signed with a secret of nobody';
      if (forged === undefined) return { verdict: 'not-checked', sent, seen: 'there is no answer' };
      return judged(sent, forged, ({ kind, status }) => {
        const seen = answerInWords(forged);
        if (patient.accepts(forged)) {
          const alike =
            answerInWords(genuine) === seen ? 'as a genuine one is' : 'in other words than a genuine one';
          return {
            verdict: 'fault',
            seen: `${seen}, ${alike}`,
            remedy:
              'Verify the signature of each webhook, and answer 401 if it is wrong: else anybody can say that something was paid.',
          };
        }
        if (kind === 'rejected') return { verdict: 'ok', seen };
        return {
          verdict: 'warning',
          seen,
          remedy: `It is refused, but with ${status}: answer 401, so that a wrong secret is not taken for a server that is down.`,
        };
      });
    },
  },
  refusal({
    id: 'signature-missing',
    title: 'A webhook without a signature must be refused',
    what: 'a test event without any signature header',
    remedy: 'Answer 401 where there is no signature, before anything else is done.',
    event: () => ({ headers: { 'X-Webhook-Signature': undefined, 'webhook-signature': undefined } }),
  }),
  refusal({
    id: 'body-altered',
    title: 'A webhook whose body was altered must be refused',
    what: 'a test event whose body is not the one that was signed',
    remedy:
      'Take the HMAC over the timestamp, "." and the body that came, and compare it with the signature.',
    event: ({ requests }) => ({ bodySent: requests.body(TEST_EVENT, { altered: true }) }),
  }),
  refusal({
    id: 'timestamp-altered',
    title: 'An old webhook under a new timestamp must be refused',
    what: 'a test event signed an hour ago, its timestamp replaced by the present one',
    remedy: 'The timestamp is signed too: take the HMAC over timestamp, "." and body.',
    event() {
      const now = String(Math.floor(Date.now() / 1_000));
      return { shift: -HOUR_S, headers: { 'X-Webhook-Timestamp': now, 'webhook-timestamp': now } };
    },
  }),
  {
    id: 'timestamp-stale',
    title: 'A webhook that is too old must be refused',
    section: 'checklist',
    requests: 2,
    needs: 'verification',
    async run(patient) {
      const sent = 'test events signed right, one an hour ago, one in an hour';
      const [old, early] = [
        await patient.send({ name: 'stale', shift: -HOUR_S }),
        await patient.send({ name: 'early', shift: HOUR_S }),
      ];
      return judged(sent, old, () => {
        const seen = `the old one ${answerInWords(old)}; the early one ${answerInWords(early)}`;
        const remedy =
          'Refuse timestamps that are more than 5 minutes off, either way: else one that was overheard can be sent again for ever.';
        if (patient.accepts(old)) return { verdict: 'fault', seen, remedy };
        return patient.accepts(early) ? { verdict: 'warning', seen, remedy } : { verdict: 'ok', seen };
      });
    },
  },
  {
    id: 'clock',
    title: 'The clock must be right, and a little delay no harm',
    section: 'checklist',
    requests: 2,
    needs: 'verification',
    async run(patient) {
      const sent = 'test events signed right, one 2 minutes ago, one in 2 minutes';
      const slow = await patient.send({ name: 'slow', shift: -120 });
      const fast = await patient.send({ name: 'fast', shift: 120 });
      const { skewSeconds } = patient.first.echo ?? {};
      const skew =
        Math.abs(skewSeconds ?? 0) < 2
          ? ''
          : `; its clock is ${Math.abs(skewSeconds ?? 0)} s ${(skewSeconds ?? 0) < 0 ? 'behind' : 'ahead'}`;
      return judged(sent, slow, () => {
        const seen = `${answerInWords(slow)}; ${answerInWords(fast)}${skew}`;
        const isOff = Math.abs(skewSeconds ?? 0) > 60;
        if (patient.accepts(slow) && patient.accepts(fast) && !isOff) return { verdict: 'ok', seen };
        return {
          verdict: 'warning',
          seen,
          remedy: 'Set the clock by NTP, and let timestamps be up to 5 minutes off.',
        };
      });
    },
  },
  {
    id: 'rotation',
    title: 'A secret should be replaceable without a loss',
    section: 'replace-a-secret',
    requests: 1,
    needs: 'verification',
    async run(patient) {
      const sent = 'a test event signed with the secret, and with a new one beside it';
      const verdict = await patient.send({ name: 'rotation', nextSecret: secretOfNobody() });
      return judged(sent, verdict, () => {
        const seen = answerInWords(verdict);
        if (patient.accepts(verdict)) return { verdict: 'ok', seen };
        return {
          verdict: 'warning',
          seen,
          remedy:
            'webhook-signature may carry several signatures with spaces between: one that matches is enough. Pay no heed to headers that you do not know.',
        };
      });
    },
  },
];

const handlingChecks: readonly Check[] = [
  {
    id: 'raw-body',
    title: 'Bodies must be verified byte for byte',
    section: 'raw-body-pitfalls',
    requests: 6,
    needs: 'verification',
    run: checkOddBodies,
  },
  {
    id: 'large-body',
    title: 'The largest body must be accepted',
    section: 'raw-body-pitfalls',
    requests: 1,
    needs: 'acceptance',
    async run(patient) {
      const rest = MAX_BODY_BYTES - patient.requests.body(TEST_EVENT, { pad: '' }).length;
      const verdict = await patient.send({
        name: 'large',
        body: patient.requests.body(TEST_EVENT, { pad: 'x'.repeat(rest) }),
      });
      return judged(`a test event of ${MAX_BODY_BYTES / 1024} KiB`, verdict, () => {
        const seen = answerInWords(verdict);
        if (patient.accepts(verdict)) return { verdict: 'ok', seen };
        return {
          verdict: 'fault',
          seen,
          remedy:
            'Raise the limit of bodies to 300 KB for this path: express.json() and express.raw() stop at 100 KB, some proxies sooner.',
        };
      });
    },
  },
  {
    id: 'unknown-event',
    title: 'An event of an unknown type must be answered 2xx',
    section: 'what-to-answer-and-what-comes-of-it',
    requests: 1,
    needs: 'acceptance',
    async run(patient) {
      const type = `hookladder.unknown_${randomBytes(3).toString('hex')}`;
      const sent = `an event of the type ${type}`;
      const verdict = patient.refusesTheType
        ? patient.first.genuine
        : await patient.send({ name: 'unknown', body: patient.requests.body(type) });
      return judged(patient.refusesTheType ? 'a signed test event' : sent, verdict, ({ kind }) => {
        const seen = answerInWords(verdict);
        if (kind === 'delivered') return { verdict: 'ok', seen };
        return {
          verdict: 'fault',
          seen,
          remedy:
            'Answer 200 to types that you do not use: new ones come without notice, and failures make you look dead. If it is not for the type, your error log tells.',
        };
      });
    },
  },
  {
    id: 'once',
    title: 'The same webhook twice must be handled once',
    section: 'handle-once',
    requests: 4,
    needs: 'acceptance',
    run: checkOnce,
  },
  {
    id: 'temporary-fault',
    title: 'A fault of its own must be answered 5xx',
    section: 'what-to-answer-and-what-comes-of-it',
    requests: 1,
    needs: 'acceptance',
    async run(patient) {
      const sent = 'the probe temporary-fault';
      if (patient.first.echo === undefined) {
        const seen = `${noKit}. Stop your database for a moment and send a webhook: it must be answered 500 or 503`;
        return { verdict: 'not-checked', sent: 'nothing', seen };
      }
      const verdict = await patient.send({ name: 'fault', body: probe('temporary-fault') });
      return judged(sent, verdict, ({ kind }) => {
        const seen = answerInWords(verdict);
        if (kind === 'server-error') return { verdict: 'ok', seen };
        return {
          verdict: 'fault',
          seen,
          remedy:
            'Something in front of the kit changes its answers. A fault that passes must be 5xx: with 4xx most webhooks are given up at once, with 2xx they count as processed.',
        };
      });
    },
  },
  {
    id: 'after-processing',
    title: 'The answer must come after processing, not before',
    section: 'checklist',
    requests: 0,
    needs: 'acceptance',
    run({ first: { echo } }) {
      const sent = 'nothing';
      if (echo !== undefined) {
        return {
          verdict: 'ok',
          sent,
          seen: 'it is the receiver kit, which answers once its handler has returned',
        };
      }
      const seen = `${noKit}. Look into your code: nothing that can fail may come after the answer`;
      return { verdict: 'not-checked', sent, seen };
    },
  },
];

/** All checks, in the order in which they are made. */
export const checks: readonly Check[] = [
  ...connectionChecks,
  ...signatureChecks,
  ...handlingChecks,
  ...finalChecks,
];

/** A secret that was never given to anybody. */
export function secretOfNobody(): string {
  return randomBytes(24).toString('hex');
}

/** The body of a question to the kit (docs/receivers.md, probes). */
export function probe(name: string): string {
  return JSON.stringify({ type: PROBE_EVENT, probe: name });
}

/** A check that something is refused. */
function refusal({
  id,
  title,
  what,
  remedy,
  event,
}: {
  readonly id: string;
  readonly title: string;
  readonly what: string;
  readonly remedy: string;
  readonly event: (patient: Patient) => Omit<TestEvent, 'name'>;
}): Check {
  return {
    id,
    title,
    section: 'checklist',
    requests: 1,
    needs: 'verification',
    async run(patient) {
      const verdict = await patient.send({ name: id, ...event(patient) });
      return judged(what, verdict, () => {
        const seen = answerInWords(verdict);
        return patient.accepts(verdict) ? { verdict: 'fault', seen, remedy } : { verdict: 'ok', seen };
      });
    },
  };
}

/** Where it is refused, a few guesses tell why. */
async function checkRightSignature(patient: Patient): Promise<Finding> {
  const { genuine } = patient.first;
  const { requests } = patient;
  const sent = 'a signed test event';
  const seen = answerInWords(genuine);
  if (genuine.kind === 'delivered') return { verdict: 'ok', sent, seen };
  if (patient.refusesTheType) {
    return {
      verdict: 'ok',
      sent,
      seen: `${seen}, other than a forged one: the signature is known, see unknown-event`,
    };
  }
  const body = requests.body();
  const digest = createHmac('sha256', requests.endpoint.secret).update(body).digest('hex');
  const guesses: [TestEvent, seen: string, remedy: string][] = [
    [
      { name: 'spaced', body: body.replaceAll(/([,:])(?=["t])/g, '$1 ') },
      'it accepts bodies only as Python writes JSON: what it verifies is not the body that came',
      verifyRaw,
    ],
    [
      { name: 'line-end', body, secret: `${requests.endpoint.secret}\n` },
      'it accepts a secret that ends in a line end',
      'Cut the line end off the secret where you read it.',
    ],
    [
      { name: 'bare', body, headers: { 'X-Webhook-Signature': digest, 'webhook-signature': undefined } },
      'it accepts a signature of the body alone',
      'Take the HMAC over timestamp, "." and body.',
    ],
  ];
  for (const [event, guess, remedy] of guesses) {
    const verdict = await patient.send(event);
    if (verdict.kind === 'delivered') return { verdict: 'fault', sent, seen: `${seen}; ${guess}`, remedy };
  }
  const reasons =
    genuine.kind === 'server-error'
      ? 'Your error log tells why.'
      : 'Check that both sides have the same secret, whole, without a line end; that the HMAC is over timestamp, "." and the raw body, in lowercase hex; the clock; and that no firewall, login or CSRF check stands before it.';
  return { verdict: 'fault', sent, seen, remedy: reasons };
}

/** Texts that change when they are parsed and written again (E13). */
const oddBodies: readonly (readonly [what: string, body: string])[] = [
  ['letters beyond ASCII', `{"type":"${TEST_EVENT}","test":true,"text":"Grüße, Привет, 请 🧾 \u2028"}`],
  ['escapes', String.raw`{"type":"${TEST_EVENT}","test":true,"text":"caf\u00e9 \/ \u003c \ud83e\uddfe"}`],
  [
    'spaces and line ends',
    `\r\n{ "test" :\ttrue,\r\n  "b": [ 1 ,2 ], "a": { } , "type" : "${TEST_EVENT}" }\n`,
  ],
  ['numbers', `{"type":"${TEST_EVENT}","test":true,"n":[10.50,1e21,-0,9007199254740993,1E-7,100.00]}`],
  ['a name that comes twice', `{"type":"${TEST_EVENT}","test":true,"a":1,"a":2}`],
  ['NUL and half an emoji', String.raw`{"type":"${TEST_EVENT}","test":true,"text":"\u0000 \ud800 \ufeff"}`],
];

async function checkOddBodies(patient: Patient): Promise<Finding> {
  const sent = `test events with ${oddBodies.map(([what]) => what).join(', ')}`;
  const refused: string[] = [];
  const stumbled: string[] = [];
  for (const [what, body] of oddBodies) {
    const verdict = await patient.send({ name: 'raw', body });
    if (patient.accepts(verdict)) continue;
    (patient.takesForForged(verdict) ? refused : stumbled).push(`${what} (${answerInWords(verdict)})`);
  }
  const others = stumbled.length === 0 ? '' : `answered with an error: ${stumbled.join('; ')}`;
  if (refused.length > 0) {
    const seen = [`taken for forged: ${refused.join('; ')}`, others].filter(Boolean).join('. ');
    return { verdict: 'fault', sent, seen, remedy: verifyRaw };
  }
  if (others === '') return { verdict: 'ok', sent, seen: 'all were accepted' };
  return {
    verdict: 'warning',
    sent,
    seen: others,
    remedy: 'These are JSON too. Keep the body as bytes or text, and what you do not use out of your tables.',
  };
}

async function checkOnce(patient: Patient): Promise<Finding> {
  return patient.first.echo === undefined ? await repeatPlainly(patient) : await repeatProbe(patient);
}

async function repeatPlainly(patient: Patient): Promise<Finding> {
  const id = `${patient.requests.run}_once`;
  const sent = `the test event ${id} twice`;
  const first = await patient.send({ name: 'once', id });
  const second = await patient.send({ name: 'once', id });
  return judged(sent, second, () => {
    const seen = `first ${answerInWords(first)}; then ${answerInWords(second)}`;
    if (patient.accepts(first) && !patient.accepts(second)) {
      return {
        verdict: 'fault',
        seen,
        remedy: `What was handled before is answered 200, else it comes again. ${handleOnce}`,
      };
    }
    return {
      verdict: 'not-checked',
      seen: `${seen}. Whether it was handled twice only you can see: look for ${id} in your log and tables, it must be there once`,
      remedy: handleOnce,
    };
  });
}

/** What the kit tells of a webhook that was to be handled once. */
function outcomeOf(verdict: Verdict): { readonly outcome?: string; readonly store?: string } {
  return answerOf(verdict) ?? {};
}

async function repeatProbe(patient: Patient): Promise<Finding> {
  const { run } = patient.requests;
  const sent = 'the probe dedup, twice in turn and twice at once';
  const event = { name: 'once', body: probe('dedup') };
  const inTurn = [
    await patient.send({ ...event, id: `${run}_once` }),
    await patient.send({ ...event, id: `${run}_once` }),
  ];
  await patient.requests.turn();
  const atOnce = await Promise.all(
    [0, 1].map(async () => await patient.send({ ...event, id: `${run}_at-once`, atOnce: true })),
  );
  const words = (verdicts: readonly Verdict[]) =>
    verdicts.map((verdict) => outcomeOf(verdict).outcome ?? answerInWords(verdict)).join(', ');
  const seen = `in turn: ${words(inTurn)}; at once: ${words(atOnce)}`;
  const isOnce = [inTurn, atOnce].map(
    (pair) => pair.filter((each) => outcomeOf(each).outcome === 'handled').length,
  );
  if (isOnce.some((times) => times > 1))
    return { verdict: 'fault', sent, seen: `${seen}: handled twice`, remedy: handleOnce };
  if (isOnce.includes(0)) {
    return { verdict: 'warning', sent, seen, remedy: 'The store does not work: your error log tells why.' };
  }
  if (outcomeOf(inTurn[0] as Verdict).store !== 'memory') return { verdict: 'ok', sent, seen };
  return {
    verdict: 'advice',
    sent,
    seen: `${seen}; the ids are in the memory of one process`,
    remedy:
      'Where money moves keep them in the database of the handler: memory forgets at a restart, and does not know other processes.',
  };
}

/** The JSON object of an answer, if it is one. */
export function answerOf(verdict: Verdict): Record<string, string> | undefined {
  if (!('excerpt' in verdict) || verdict.excerpt === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(verdict.excerpt);
    return typeof value === 'object' && value !== null ? (value as Record<string, string>) : undefined;
  } catch {
    return undefined;
  }
}
