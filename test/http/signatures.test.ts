import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { signatureHeaders } from '../../src/http/signatures.ts';

const body = Buffer.from('{"emoji":"🪝","line":"\u2028"}', 'utf8');
const message = { webhookId: 'evt_1', timestamp: 1_765_153_843, body };

/** HMAC-SHA256 by another implementation. */
function openssl(key: Buffer, data: Buffer, encoding: 'hex' | 'base64'): string {
  const digest = execFileSync(
    'openssl',
    ['dgst', '-sha256', '-mac', 'HMAC', '-macopt', `hexkey:${key.toString('hex')}`, '-binary'],
    { input: data },
  );
  return digest.toString(encoding);
}

describe('signatures', () => {
  test('R61 one lowercase hex HMAC over timestamp + "." + raw body, verified by OpenSSL', () => {
    const secret = 'секрет-of-more-than-16-bytes';
    const headers = signatureHeaders(message, { secret });
    const signed = Buffer.concat([Buffer.from('1765153843.'), body]);
    expect(headers['X-Webhook-Signature']).toBe(openssl(Buffer.from(secret), signed, 'hex'));
    expect(headers).toMatchObject({ 'X-Webhook-Id': 'evt_1', 'X-Webhook-Timestamp': '1765153843' });
    expect(headers).not.toHaveProperty('X-Webhook-Signature-Next');
  });

  test('R62 Standard Webhooks: the key of a whsec_ secret is decoded, verified by OpenSSL', () => {
    const key = Buffer.from('24 bytes of a random key');
    const headers = signatureHeaders(message, { secret: `whsec_${key.toString('base64')}` });
    const signed = Buffer.concat([Buffer.from('evt_1.1765153843.'), body]);
    expect(headers['webhook-signature']).toBe(`v1,${openssl(key, signed, 'base64')}`);
    expect(headers).toMatchObject({ 'webhook-id': 'evt_1', 'webhook-timestamp': '1765153843' });
  });

  test('R63 with a next secret the own signature stays with the old one and the standard one carries both', () => {
    const old = signatureHeaders(message, { secret: 'old secret of 20 bytes' });
    const next = signatureHeaders(message, { secret: 'new secret of 20 bytes' });
    const both = signatureHeaders(message, {
      secret: 'old secret of 20 bytes',
      nextSecret: 'new secret of 20 bytes',
    });
    expect(both['X-Webhook-Signature']).toBe(old['X-Webhook-Signature']);
    expect(both['X-Webhook-Signature-Next']).toBe(next['X-Webhook-Signature']);
    expect(both['webhook-signature']).toBe(`${old['webhook-signature']} ${next['webhook-signature']}`);
  });
});
