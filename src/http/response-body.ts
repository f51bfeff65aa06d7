import type { Readable } from 'node:stream';
import type { ResponseVerdict } from '../policy/verdicts.ts';

/** At most this much of a response is kept, before and after it is decoded. */
const EXCERPT_BYTES = 1024;
/** A verdict waits this long for the first bytes of the body. */
const EXCERPT_WITHIN_MS = 100;
/** A body is read this far, so that its connection can be used again; then the connection is closed. */
const DRAIN_BYTES = 64 * 1024;
const DRAIN_WITHIN_MS = 500;

type Excerpt = Pick<ResponseVerdict, 'excerpt' | 'excerptCut'>;

/**
 * Takes the first bytes of a body, and reads on within limits after it has returned; whatever the body does changes
 * nothing (R1). It is never decompressed.
 * @param encoding - the response's `Content-Encoding`.
 */
export function readExcerpt(body: Readable, encoding: string | undefined): Promise<Excerpt> {
  return new Promise((resolve) => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    let isTaken = false;
    const take = (ended: boolean) => {
      if (isTaken) return;
      isTaken = true;
      clearTimeout(takeTimer);
      if (size === 0 && ended) return resolve({});
      const isCut = !ended || size > EXCERPT_BYTES;
      if (!isPlain(encoding)) return resolve({ excerpt: '(compressed, not decoded)', excerptCut: true });
      const readable = decode(Buffer.concat(chunks), isCut);
      const excerpt = firstBytes(readable);
      resolve({ excerpt, ...(isCut || excerpt.length < readable.length ? { excerptCut: true } : {}) });
    };
    const takeTimer = setTimeout(() => take(false), EXCERPT_WITHIN_MS);
    const drainTimer = setTimeout(() => body.destroy(), DRAIN_WITHIN_MS);
    body.on('data', (chunk: Uint8Array) => {
      if (size < EXCERPT_BYTES) chunks.push(chunk);
      size += chunk.length;
      if (size > EXCERPT_BYTES) take(false);
      if (size > DRAIN_BYTES) body.destroy();
    });
    body.once('end', () => take(true));
    body.once('error', () => take(false));
    body.once('close', () => {
      clearTimeout(drainTimer);
      take(false);
    });
  });
}

function isPlain(encoding: string | undefined): boolean {
  return ['', 'identity'].includes(encoding?.trim().toLowerCase() ?? '');
}

/** UTF-8 with a mark for what is not. */
function decode(bytes: Uint8Array, isCut: boolean): string {
  return readableText(new TextDecoder().decode(bytes.subarray(0, EXCERPT_BYTES), { stream: isCut }));
}

/** Marks can be longer than what they stand for. */
function firstBytes(text: string): string {
  return new TextDecoder().decode(Buffer.from(text).subarray(0, EXCERPT_BYTES), { stream: true });
}

/** Without what would garble a terminal or hide text: a mark for control, bidirectional and invisible characters. */
export function readableText(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(/[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\t\n]]/gv, '\uFFFD');
}
