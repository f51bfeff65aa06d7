import { describe, expect, test } from 'vitest';
import { openHeaders, sealHeaders } from '../../src/custom-headers.ts';
import { checkEndpointSettings } from '../../src/endpoints.ts';
import { InvalidEndpoint } from '../../src/errors.ts';
import type { SealedSecret } from '../../src/policy/gate.ts';
import { SecretBox, SecretKeyError } from '../../src/secrets.ts';
import { SECRET_KEYS } from '../support/stack.ts';

const endpoint = { url: 'https://merchant.example/', secret: 'a secret of 20 bytes' };
const check = (headers: unknown) =>
  checkEndpointSettings({ ...endpoint, headers: headers as Record<string, string> }, false).headers;

describe('R72 custom headers', () => {
  test.each<[Record<string, string>]>([
    [{}],
    [{ Authorization: 'Bearer abc.def==' }],
    [{ 'X-Api-Key': 'k', 'x-tenant': 'a b  c', "!#$%&'*+-.^_`|~": '!"(),/:;<=>?@[\\]{}' }],
    [{ Cookie: 'a=b; c=d', Accept: '*/*', 'X-Webhooks': '1', Contents: 'x', Hosts: 'h' }],
    [{ constructor: 'x', toString: 'y' }],
    [JSON.parse('{"__proto__": "z"}') as Record<string, string>],
    [{ 'X-Long': 'v'.repeat(502) }],
  ])('%j are taken as they are', (headers) => {
    expect(Object.entries(check(headers) ?? {})).toEqual(Object.entries(headers));
  });

  test.each<[headers: unknown, remedy: string]>([
    [{ 'X-Long': 'v'.repeat(503) }, 'at most 512 bytes in all (name, value and 4 for each), not 513'],
    [Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`h${n}`, 'v'])), 'at most 512 bytes'],
    [{ '': 'v' }, 'name 1 must be a token'],
    [{ A: 'v', 'X Key': 'v' }, 'name 2 must be a token'],
    [{ 'X:Key': 'v' }, 'must be a token'],
    [{ Schlüssel: 'v' }, 'must be a token'],
    [{ 'X-Key\r\nHost': 'v' }, 'must be a token'],
    [{ 'X-Key': '' }, '"X-Key" must have a value'],
    [{ 'X-Key': ' v' }, '"X-Key" must have a value'],
    [{ 'X-Key': 'v ' }, '"X-Key" must have a value'],
    [{ 'X-Key': 'v\r\nHost: other' }, '"X-Key" must have a value'],
    [{ 'X-Key': 'a\tb' }, '"X-Key" must have a value'],
    [{ 'X-Key': 'a\0b' }, '"X-Key" must have a value'],
    [{ 'X-Key': 'schlüssel' }, '"X-Key" must have a value'],
    [{ 'X-Key': 5 }, '"X-Key" must have a value'],
    [{ 'X-Key': ['a', 'b'] }, '"X-Key" must have a value'],
    [{ 'X-Key': undefined }, '"X-Key" must have a value'],
    [{ 'X-Key': 'a', 'x-KEY': 'b' }, '"x-KEY" is there twice'],
    [{ 'X-Key': 'a', X_Key: 'b' }, '"X_Key" is there twice'],
    [{ X_Webhook_Signature: 'v' }, '"X_Webhook_Signature" is set by hookladder'],
    [{ Content_Length: '5' }, '"Content_Length" is set by hookladder'],
    [{ transfer_encoding: 'chunked' }, '"transfer_encoding" is set by hookladder'],
    [[['X-Key', 'v']], 'must be an object'],
    [new Headers({ 'X-Key': 'v' }), 'must be an object'],
    [new Map([['X-Key', 'v']]), 'must be an object'],
    ['X-Key: v', 'must be an object'],
    [null, 'must be an object'],
  ])('%j are refused: %s', (headers, remedy) => {
    expect(() => check(headers)).toThrow(InvalidEndpoint);
    expect(() => check(headers)).toThrow('the endpoint was refused: headers ');
    expect(() => check(headers)).toThrow(remedy);
  });

  test.each(
    [
      'Host, Connection, Keep-Alive, TE, Trailer, Transfer-Encoding, Upgrade, Expect, Via, HTTP2-Settings',
      'Content-Length, Content-Type, Content-Encoding, Content-Digest, User-Agent',
      'Proxy-Authorization, Proxy-Connection, Proxy-Authenticate',
      'X-Webhook-Id, X-Webhook-Signature, X-Webhook-Anything, webhook-id, Webhook-Signature',
      'traceparent, tracestate, baggage, b3, X-B3-TraceId',
    ].flatMap((line) => line.split(', ')),
  )('%s is the product’s or HTTP’s own', (name) => {
    for (const spelling of [name, name.toUpperCase(), name.toLowerCase()]) {
      expect(() => check({ [spelling]: 'v' })).toThrow(
        `"${spelling}" is set by hookladder or by HTTP itself`,
      );
    }
  });

  test('a refusal names no value, and no name that is none', () => {
    const refusal = () =>
      check({ 'Authorization: Bearer sk_1': 'x', 'X-Key': 'sk_2\n', Host: 'sk_3', A: 'sk_4', a: 'sk_5' });
    expect(refusal).toThrow('name 1');
    expect(refusal).not.toThrow(/sk_/);
  });

  test('sealed values open for their merchant, URL and names only', async () => {
    const box = new SecretBox(SECRET_KEYS);
    const { url } = endpoint;
    const headers = await sealHeaders(box, 'shop-1', url, { A: 'one', B: 'two words' });
    const secret = 'sealed' as SealedSecret;
    expect(await openHeaders(box, 'shop-1', { url, secret, headers })).toEqual({ A: 'one', B: 'two words' });
    for (const [merchantId, changed] of [
      ['shop-2', { url, secret, headers }],
      ['shop-1', { url: 'https://elsewhere.example/', secret, headers }],
      ['shop-1', { url, secret, headers: { ...headers, names: ['B', 'A'] } }],
    ] as const) {
      await expect(openHeaders(box, merchantId, changed)).rejects.toThrow(SecretKeyError);
    }
  });
});
