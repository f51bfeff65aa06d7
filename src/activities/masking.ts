import type { Verdict } from '../policy/verdicts.ts';

/** What is shorter cannot be told from ordinary text. */
const SHORTEST = 4;
const MASK = '****';

/** A verdict whose texts do not repeat what a receiver was told in confidence: it may have echoed the request. */
export function masked(verdict: Verdict, secrets: readonly string[]): Verdict {
  if (!('status' in verdict)) return verdict;
  const forms = formsOf(secrets);
  const { excerpt, excerptCut = false, location } = verdict;
  return {
    ...verdict,
    ...(excerpt === undefined ? {} : { excerpt: maskedText(excerpt, forms, excerptCut) }),
    ...(location === undefined ? {} : { location: maskedText(location, forms, true) }),
  };
}

/** As receivers write a value back: as it is, percent-encoded, in base64, in JSON; of `Bearer abc` also `abc`. */
function formsOf(secrets: readonly string[]): string[] {
  const parts = secrets.flatMap((secret) => [
    secret,
    secret.replace(/^(?:whsec_|[A-Za-z][\w-]* +)/, ''),
    ...(secret.startsWith('Basic ') ? [Buffer.from(secret.slice(6), 'base64').toString()] : []),
  ]);
  const forms = parts.flatMap((part) => [
    part,
    encodeURIComponent(part),
    encodeURIComponent(part).replaceAll('%20', '+'),
    Buffer.from(part).toString('base64').replace(/=+$/, ''),
    Buffer.from(part).toString('base64url'),
    JSON.stringify(part).slice(1, -1),
  ]);
  const long = forms.filter((form) => form.length >= SHORTEST);
  // The longest first: a shorter one may be part of it.
  return [...new Set(long)].toSorted((a, b) => b.length - a.length);
}

function maskedText(text: string, forms: readonly string[], isCut: boolean): string {
  const whole = forms.reduce((rest, form) => rest.replace(patternOf(form), MASK), text);
  const started = isCut ? Math.max(0, ...forms.map((form) => startedBy(whole, form))) : 0;
  return started === 0 ? whole : `${whole.slice(0, -started)}${MASK}`;
}

/** A percent-encoding may be in small letters. */
function patternOf(form: string): RegExp {
  return new RegExp(form.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`), form.includes('%') ? 'gi' : 'g');
}

/** How many characters at the end of a text begin a form that is cut there. */
function startedBy(text: string, form: string): number {
  for (let length = form.length - 1; length >= SHORTEST; length--) {
    if (text.endsWith(form.slice(0, length))) return length;
  }
  return 0;
}
