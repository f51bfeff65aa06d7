// The three date forms of RFC 9110, 5.6.7. Date.parse alone would also take much that is not a date of HTTP.
const imfFixdate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;
const rfc850Date = /^[A-Z][a-z]+day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/;
const asctimeDate = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

/** Nothing longer is told, so that it is a number in JSON too: a year. */
const LONGEST_MS = 365 * 24 * 60 * 60_000;

/**
 * R12: how long a `Retry-After` header asks to wait, in milliseconds from `now` (Unix milliseconds); at most a year.
 * `undefined` for garbage, negative values and dates that have passed or do not exist.
 */
export function retryAfterMs(header: string, now: number): number | undefined {
  const value = header.trim();
  if (/^\d+$/.test(value)) return Math.min(Number(value) * 1_000, LONGEST_MS);
  const date = parseHttpDate(value);
  return date !== undefined && date > now ? Math.min(date - now, LONGEST_MS) : undefined;
}

function parseHttpDate(value: string): number | undefined {
  const zoned = asctimeDate.test(value) ? `${value} GMT` : value;
  if (zoned === value && !imfFixdate.test(value) && !rfc850Date.test(value)) return undefined;
  const date = Date.parse(zoned);
  // The 31st of February would be a day of March.
  const isReal = new Date(date).getUTCDate() === Number(/\d+/.exec(value)?.[0]);
  return isReal ? date : undefined;
}
