/** The variables of the codec server and their defaults, for people. */
export const CODEC_VARIABLES = [
  { name: 'HOOKLADDER_CODEC_HOST', fallback: '127.0.0.1' },
  { name: 'HOOKLADDER_CODEC_PORT', fallback: '8234' },
  { name: 'HOOKLADDER_CODEC_ORIGINS', fallback: 'none' },
  { name: 'HOOKLADDER_CODEC_HOSTS', fallback: 'any; those of loopback if it listens there' },
  { name: 'HOOKLADDER_CODEC_AUTH', fallback: 'on' },
  { name: 'HOOKLADDER_CODEC_TOKENS', fallback: 'none' },
  { name: 'HOOKLADDER_CODEC_TOKENS_FILE', fallback: 'none' },
  { name: 'HOOKLADDER_CODEC_JWKS_URL', fallback: 'none' },
  { name: 'HOOKLADDER_CODEC_JWT_ISSUER', fallback: 'none' },
  { name: 'HOOKLADDER_CODEC_JWT_AUDIENCE', fallback: 'none' },
] as const;
