import { createHash, timingSafeEqual } from 'node:crypto';
import { createRemoteJWKSet, jwtVerify } from 'jose';

/** Who a request comes from, by its `Authorization` header; `undefined` if nobody may. */
export type Access = (authorization: string | undefined) => Promise<string | undefined>;

/** A bearer token of this server's own, and whom it was given to. */
export interface NamedToken {
  readonly name: string;
  readonly token: string;
}

/** Tokens that an identity provider signs, as a Temporal UI with a login of its own passes them on. */
export interface JwtSettings {
  /** Where the provider publishes its keys. */
  readonly jwksUrl: string;
  readonly issuer: string;
  readonly audience: string;
}

const SHORTEST_TOKEN = 20;
/** What a provider signs with; a secret that is shared would let whoever checks also sign. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];

/** Lets everybody in who gets that far. */
export const openAccess: Access = () => Promise.resolve('anybody');

/** Lets in whoever bears one of the tokens, or one that the provider has signed. */
export function bearerAccess(tokens: readonly NamedToken[], jwt: JwtSettings | undefined): Access {
  const named = tokens.map(({ name, token }) => ({ name, digest: digestOf(token) }));
  const subjectOf = jwt === undefined ? () => Promise.resolve(undefined) : subjects(jwt);
  return async (authorization) => {
    const bearer = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
    if (bearer === undefined) return undefined;
    const digest = digestOf(bearer);
    return named.find((each) => timingSafeEqual(each.digest, digest))?.name ?? (await subjectOf(bearer));
  };
}

function subjects({
  jwksUrl,
  issuer,
  audience,
}: JwtSettings): (token: string) => Promise<string | undefined> {
  const keys = createRemoteJWKSet(new URL(jwksUrl));
  return async (token) => {
    try {
      const { payload } = await jwtVerify(token, keys, { issuer, audience, algorithms: ALGORITHMS });
      return payload.sub ?? 'a subject without a name';
    } catch {
      return undefined;
    }
  };
}

/**
 * Reads `name:token` pairs, separated by commas or lines. No error carries a token.
 * @throws Error on a malformed pair or a token that is too short to be a secret.
 */
export function parseTokens(text: string): NamedToken[] {
  const pairs = text
    .split(/[,\n]/)
    .map((line) => line.trim())
    .filter((line) => line !== '');
  return pairs.map((pair, index) => {
    const [, name, token] = /^([A-Za-z0-9._-]{1,64}):(\S+)$/.exec(pair) ?? [];
    if (name !== undefined && token !== undefined && token.length >= SHORTEST_TOKEN) return { name, token };
    throw new Error(
      `token ${index + 1} must be name:token of ${SHORTEST_TOKEN} characters or more, such as ann:$(openssl rand -hex 20)`,
    );
  });
}

/** Of one length, so that a comparison takes the same time whatever is compared. */
function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
