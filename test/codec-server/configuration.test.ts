import { describe, expect, test } from 'vitest';
import { readCodecServerConfiguration } from '../../src/codec-server/configuration.ts';
import { newKey } from '../../src/key-list.ts';

const keys = newKey('k1');
const TOKEN = 'a-token-of-thirty-characters-x';

describe('the environment of a codec server', () => {
  const enough = { HOOKLADDER_ENCRYPTION_KEYS: keys, HOOKLADDER_CODEC_TOKENS: `ann:${TOKEN}` };

  test('has a default for all but keys and who may ask', async () => {
    const { host, port, origins, hosts } = await readCodecServerConfiguration(enough);
    expect({ host, port, origins: [...origins] }).toEqual({ host: '127.0.0.1', port: 8234, origins: [] });
    expect(hosts.has('localhost')).toBe(true);
    const open = await readCodecServerConfiguration({
      HOOKLADDER_ENCRYPTION_KEYS: keys,
      HOOKLADDER_CODEC_AUTH: 'off',
      HOOKLADDER_CODEC_HOST: '0.0.0.0',
      HOOKLADDER_CODEC_ORIGINS: 'https://temporal.example, http://localhost:8080',
      HOOKLADDER_CODEC_HOSTS: 'Codec.example',
    });
    expect([...open.origins]).toEqual(['https://temporal.example', 'http://localhost:8080']);
    expect([...open.hosts]).toEqual(['codec.example']);
    expect(await open.access(undefined)).toBe('anybody');
  });

  test.each<[environment: NodeJS.ProcessEnv, says: RegExp]>([
    [{ HOOKLADDER_ENCRYPTION_KEYS: '' }, /no key to encrypt payloads with/],
    [
      { HOOKLADDER_CODEC_TOKENS: '' },
      /HOOKLADDER_CODEC_TOKENS_FILE or HOOKLADDER_CODEC_JWKS_URL must be set/,
    ],
    [{ HOOKLADDER_CODEC_TOKENS: 'ann:short' }, /HOOKLADDER_CODEC_TOKENS: token 1/],
    [{ HOOKLADDER_CODEC_TOKENS_FILE: '/no/file' }, /HOOKLADDER_CODEC_TOKENS_FILE: ENOENT/],
    [{ HOOKLADDER_CODEC_PORT: '-1' }, /HOOKLADDER_CODEC_PORT must be a port/],
    [{ HOOKLADDER_CODEC_PORT: 'x' }, /HOOKLADDER_CODEC_PORT must be a port/],
    [{ HOOKLADDER_CODEC_ORIGINS: '*' }, /HOOKLADDER_CODEC_ORIGINS must be origins .* not \*/],
    [{ HOOKLADDER_CODEC_ORIGINS: 'https://ui.example/' }, /must be origins/],
    [{ HOOKLADDER_CODEC_AUTH: 'no' }, /HOOKLADDER_CODEC_AUTH must be on or off/],
    [{ HOOKLADDER_CODEC_JWKS_URL: 'https://x/keys' }, /must be set together/],
    [
      {
        HOOKLADDER_CODEC_JWKS_URL: 'x',
        HOOKLADDER_CODEC_JWT_ISSUER: 'x',
        HOOKLADDER_CODEC_JWT_AUDIENCE: 'x',
      },
      /HOOKLADDER_CODEC_JWKS_URL must be an http/,
    ],
    [{ HOOKLADDER_CODEC_ORIGIN: 'x' }, /HOOKLADDER_CODEC_ORIGIN is not known/],
  ])('%j is refused', async (environment, says) => {
    const refused = readCodecServerConfiguration({ ...enough, ...environment });
    await expect(refused).rejects.toThrow(says);
    await expect(refused).rejects.toThrow(/^the codec server cannot start:/);
    await expect(refused).rejects.not.toThrow(TOKEN);
  });
});
