import { readFile } from 'node:fs/promises';
import { ConfigurationError } from '../configuration-error.ts';
import { codecOf, encryptionOf, type Encryption } from '../encryption/encryption.ts';

import { bearerAccess, openAccess, parseTokens, type Access, type JwtSettings } from './access.ts';
import { CODEC_VARIABLES } from './variables.ts';
import { messageOf } from '../message-of.ts';

/** What a codec server takes from its environment. */
export interface CodecServerConfiguration {
  readonly encryption: Encryption;
  readonly access: Access;
  readonly host: string;
  readonly port: number;
  readonly origins: ReadonlySet<string>;
  readonly hosts: ReadonlySet<string>;
}

type Name = (typeof CODEC_VARIABLES)[number]['name'];
type Values = Readonly<Partial<Record<Name, string>>>;

const known: readonly string[] = CODEC_VARIABLES.map(({ name }) => name);

/** What this machine calls itself. */
export const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]', '::1']);

/**
 * Reads a codec server's environment.
 * @throws {@link ConfigurationError} that names every variable that is wrong.
 */
export async function readCodecServerConfiguration(
  environment: NodeJS.ProcessEnv,
): Promise<CodecServerConfiguration> {
  const values: Values = Object.fromEntries(
    Object.entries(environment).filter(
      ([name, value]) => name.startsWith('HOOKLADDER_CODEC_') && value !== '',
    ),
  );
  const problems = Object.keys(values)
    .filter((name) => !known.includes(name))
    .map((name) => `${name} is not known; known are ${known.join(', ')}`);
  const encryption = await readKeys(environment, problems);
  const port = Number(values.HOOKLADDER_CODEC_PORT ?? '8234');
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    problems.push('HOOKLADDER_CODEC_PORT must be a port, from 0 to 65535');
  }
  const origins = listOf(values.HOOKLADDER_CODEC_ORIGINS);
  for (const origin of origins.filter((each) => !isOrigin(each))) {
    problems.push(`HOOKLADDER_CODEC_ORIGINS must be origins such as https://temporal.example, not ${origin}`);
  }
  const access = await readAccess(values, problems);
  if (encryption === undefined || problems.length > 0) {
    throw new ConfigurationError(problems, 'the codec server');
  }
  const host = values.HOOKLADDER_CODEC_HOST ?? '127.0.0.1';
  const names = listOf(values.HOOKLADDER_CODEC_HOSTS).map((name) => name.toLowerCase());
  const hosts = names.length === 0 && LOOPBACK_NAMES.has(host) ? LOOPBACK_NAMES : new Set(names);
  return { encryption, access, host, port, origins: new Set(origins), hosts };
}

async function readKeys(environment: NodeJS.ProcessEnv, problems: string[]): Promise<Encryption | undefined> {
  try {
    const encryption = encryptionOf(environment);
    await codecOf(encryption).encode([{}]);
    return encryption;
  } catch (error) {
    problems.push(messageOf(error));
    return undefined;
  }
}

async function readAccess(values: Values, problems: string[]): Promise<Access> {
  const { HOOKLADDER_CODEC_AUTH: auth = 'on' } = values;
  if (auth === 'off') return openAccess;
  if (auth !== 'on') problems.push(`HOOKLADDER_CODEC_AUTH must be on or off, not ${JSON.stringify(auth)}`);
  const tokens = await readTokens(values, problems);
  const jwt = readJwt(values, problems);
  if (tokens.length === 0 && jwt === undefined && problems.length === 0) {
    problems.push(
      'HOOKLADDER_CODEC_TOKENS_FILE or HOOKLADDER_CODEC_JWKS_URL must be set, or HOOKLADDER_CODEC_AUTH=off where ' +
        'nobody else can reach it',
    );
  }
  return bearerAccess(tokens, jwt);
}

async function readTokens(values: Values, problems: string[]) {
  const { HOOKLADDER_CODEC_TOKENS: inline, HOOKLADDER_CODEC_TOKENS_FILE: file } = values;
  try {
    const text = file === undefined ? inline : await readFile(file, 'utf8');
    return parseTokens(text ?? '');
  } catch (error) {
    problems.push(`HOOKLADDER_CODEC_TOKENS${file === undefined ? '' : '_FILE'}: ${messageOf(error)}`);
    return [];
  }
}

function readJwt(values: Values, problems: string[]): JwtSettings | undefined {
  const {
    HOOKLADDER_CODEC_JWKS_URL: jwksUrl,
    HOOKLADDER_CODEC_JWT_ISSUER: issuer,
    HOOKLADDER_CODEC_JWT_AUDIENCE: audience,
  } = values;
  if (jwksUrl === undefined && issuer === undefined && audience === undefined) return undefined;
  if (jwksUrl === undefined || issuer === undefined || audience === undefined) {
    problems.push(
      'HOOKLADDER_CODEC_JWKS_URL, HOOKLADDER_CODEC_JWT_ISSUER and HOOKLADDER_CODEC_JWT_AUDIENCE must be set together',
    );
    return undefined;
  }
  if (!/^https?:/.test(jwksUrl) || !URL.canParse(jwksUrl)) {
    problems.push('HOOKLADDER_CODEC_JWKS_URL must be an http(s) URL');
    return undefined;
  }
  return { jwksUrl, issuer, audience };
}

function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text && text !== 'null';
}

function listOf(text = ''): string[] {
  return text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
}
