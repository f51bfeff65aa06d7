import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { masked } from '../../src/activities/masking.ts';
import type { Verdict } from '../../src/policy/verdicts.ts';

const echo = (excerpt: string, location?: string): Verdict => ({
  kind: 'redirected',
  status: 302,
  durationMs: 5,
  excerpt,
  ...(location === undefined ? {} : { location }),
});

describe('R72 what a receiver echoes of secrets is masked', () => {
  const secret = 'Bearer geheim/123 + "x"';
  const token = 'geheim/123 + "x"';

  test.each([
    ['as it is', secret],
    ['without its scheme', token],
    ['percent-encoded', encodeURIComponent(secret)],
    ['percent-encoded in small letters', encodeURIComponent(token).toLowerCase()],
    ['as a form', new URLSearchParams({ a: token }).toString().slice(2)],
    ['in base64', Buffer.from(secret).toString('base64')],
    ['in base64url', Buffer.from(token).toString('base64url')],
    ['in JSON', JSON.stringify(secret).slice(1, -1)],
  ])('%s', (_, written) => {
    const verdict = masked(echo(`you sent ${written}, twice: ${written}.`, `/login?was=${written}`), [
      secret,
    ]);
    expect(verdict).toMatchObject({
      excerpt: expect.stringMatching(/^you sent \*{4}=*, twice: \*{4}=*\.$/),
      location: expect.stringMatching(/^\/login\?was=\*{4}=*$/),
    });
  });

  test('user and password of Basic, and the key of a whsec_ secret', () => {
    const basic = `Basic ${Buffer.from('ann:p@ssword').toString('base64')}`;
    const key = Buffer.from('the newer key of 26 bytes!').toString('base64');
    const verdict = masked(echo(`ann:p@ssword and ${key}`), [basic, `whsec_${key}`]);
    expect(verdict).toMatchObject({ excerpt: '**** and ****' });
  });

  test('one that the end of the excerpt cuts', () => {
    const text = 'you sent Authorization: Bearer gehe';
    const cut = { ...echo(text), excerptCut: true } as Verdict;
    expect(masked(cut, [secret])).toMatchObject({ excerpt: 'you sent Authorization: ****' });
    expect(masked(echo(text), [secret])).toMatchObject({ excerpt: text });
  });

  test('values of less than 4 characters, and other texts, stay', () => {
    const verdict = echo('it is yes', '/yes');
    expect(masked(verdict, ['yes', '', 'another secret'])).toEqual(verdict);
    const unanswered: Verdict = { kind: 'timeout', code: 'timeout', message: 'no answer', durationMs: 5 };
    expect(masked(unanswered, ['answer'])).toEqual(unanswered);
  });

  test('no secret is left, and no text grows', () => {
    const value = fc
      .string({ unit: 'grapheme-ascii', minLength: 6, maxLength: 40 })
      .filter((text) => !text.includes('*'));
    fc.assert(
      fc.property(fc.array(value, { minLength: 1, maxLength: 4 }), fc.string(), (secrets, between) => {
        const text = secrets.join(between);
        const verdict = masked(echo(text), secrets);
        const excerpt = 'excerpt' in verdict ? (verdict.excerpt ?? '') : '';
        expect(secrets.filter((each) => excerpt.includes(each))).toEqual([]);
        expect(excerpt.length).toBeLessThanOrEqual(text.length);
      }),
    );
  });
});
