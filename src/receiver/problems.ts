const proxy = 'Let your proxy pass all headers on.';
const clock = "Check this machine's clock.";

/** Why a request is not taken for a webhook: the status to answer, what is wrong, what to do. */
const problems = {
  'no-secret': [500, 'no signing secret is given', 'Give the secret: perhaps its variable is not set.'],
  'bad-secret': [500, 'a secret is "whsec_" without base64 after it', 'Copy the secret whole.'],
  'body-parsed': [
    500,
    'the raw body is gone: it was parsed already',
    'Mount this before any parser, such as express.json(), or keep the bytes as rawBody.',
  ],
  'not-post': [405, 'webhooks come by POST', 'Nothing.'],
  'body-too-large': [413, 'the body is larger than maxBodyBytes', 'Raise it if this was a webhook.'],
  'body-incomplete': [400, 'the connection broke in the body', 'Nothing: it comes again.'],
  'missing-signature': [401, 'there is no signature', proxy],
  'bad-id': [400, 'the webhook id is missing or malformed', proxy],
  'id-mismatch': [400, 'X-Webhook-Id and webhook-id differ', 'Find out who has altered the headers.'],
  'bad-timestamp': [400, 'the timestamp is missing or no number', proxy],
  'wrong-signature': [
    401,
    'no signature matches',
    'Check the secret, and that nothing on the way changes the body.',
  ],
  'stale-timestamp': [401, 'it was signed too long ago', clock],
  'future-timestamp': [401, 'it was signed in the future', clock],
  'not-json': [400, 'the body is no JSON in UTF-8', 'Ask the sender.'],
} as const satisfies Record<string, readonly [status: number, message: string, remedy: string]>;

/** Stable, machine-readable. */
export type ProblemCode = keyof typeof problems;

/** Why a request was refused. */
export interface Problem {
  readonly code: ProblemCode;
  /** The status to answer: 5xx where the fault is on this side, so that the webhook comes again. */
  readonly status: number;
  readonly message: string;
  /** What to do about it. */
  readonly remedy: string;
}

export function problemOf(code: ProblemCode): Problem {
  const [status, message, remedy] = problems[code];
  return { code, status, message, remedy };
}
