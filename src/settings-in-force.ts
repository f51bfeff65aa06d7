import { readFileSync } from 'node:fs';
import { loadClientConfigProfile } from '@temporalio/envconfig';
import { VARIABLES } from './configuration.ts';
import { parseKeys } from './key-list.ts';
import { TRACE_VARIABLES, tracesWanted } from './trace-settings.ts';

/** A setting, its value, and where that came from. Keys and secrets are never shown. */
export interface Setting {
  readonly name: string;
  readonly value: string;
  readonly from: string;
}

const HIDDEN = '(set, not shown)';

/** What clients and workers that start with this environment would use. */
export function settingsInForce(
  environment: NodeJS.ProcessEnv,
  flags: {
    readonly address: string | undefined;
    readonly namespace: string | undefined;
    readonly profile: string | undefined;
  },
): Setting[] {
  const overrideEnvVars = Object.fromEntries(
    Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  const profileName = flags.profile ?? environment['TEMPORAL_PROFILE'];
  const withProfile = profileName === undefined ? {} : { profile: profileName };
  const inFile = loadClientConfigProfile({ disableEnv: true, ...withProfile, overrideEnvVars });
  const inForce = loadClientConfigProfile({ ...withProfile, overrideEnvVars });
  const file = `profile ${profileName ?? 'default'} of the Temporal configuration file`;
  const of = (
    name: string,
    flag: string | undefined,
    used: string | undefined,
    filed: string | undefined,
    fallback: string,
  ) => {
    if (flag !== undefined) return { name, value: flag, from: 'flag' };
    if (environment[name]) return { name, value: environment[name], from: 'environment' };
    return filed === undefined
      ? { name, value: used ?? fallback, from: 'default' }
      : { name, value: filed, from: file };
  };
  return [
    of('TEMPORAL_ADDRESS', flags.address, inForce.address, inFile.address, 'localhost:7233'),
    of('TEMPORAL_NAMESPACE', flags.namespace, inForce.namespace, inFile.namespace, 'default'),
    of('TEMPORAL_PROFILE', flags.profile, undefined, undefined, 'default'),
    secretOf('TEMPORAL_API_KEY', environment, inFile.apiKey !== undefined, file),
    {
      name: 'TLS',
      value: inForce.tls === undefined || inForce.tls.disabled ? 'off' : 'on',
      from: tlsFrom(environment, inFile.tls !== undefined, file),
    },
    ...VARIABLES.map(({ name, fallback }) => ownSetting(name, fallback, environment)),
    traces(environment),
    ...TRACE_VARIABLES.filter((name) => environment[name]).map((name) => ownSetting(name, '', environment)),
  ];
}

function ownSetting(name: string, fallback: string, environment: NodeJS.ProcessEnv): Setting {
  const value = environment[name];
  if (!value) return { name, value: fallback, from: 'default' };
  return { name, value: shown(name, value), from: 'environment' };
}

function shown(name: string, value: string): string {
  if (name.endsWith('_TOKENS')) return HIDDEN;
  if (name.endsWith('_KEYS')) return idsOf(value);
  if (name.endsWith('_KEYS_FILE')) return `${value}: ${idsIn(value)}`;
  return withoutPassword(value);
}

function idsIn(path: string): string {
  try {
    return idsOf(readFileSync(path, 'utf8'));
  } catch (error) {
    return `cannot be read (${error instanceof Error && 'code' in error ? String(error.code) : String(error)})`;
  }
}

function idsOf(keys: string): string {
  try {
    const ids = parseKeys(keys, 'encryption').map(({ id }) => id);
    return `${ids.join(', ')} (ids, the newest first; keys are not shown)`;
  } catch {
    return '(malformed, not shown)';
  }
}

function traces(environment: NodeJS.ProcessEnv): Setting {
  const isSaid = [...TRACE_VARIABLES, 'OTEL_SDK_DISABLED'].some((name) => environment[name]);
  return {
    name: 'traces',
    value: tracesWanted(environment) ? 'on' : 'off',
    from: isSaid ? 'environment' : 'default',
  };
}

/** The address of a proxy may have one. */
function withoutPassword(value: string): string {
  return value.replace(/\/\/[^/]*@/, '//(not shown)@');
}

function secretOf(name: string, environment: NodeJS.ProcessEnv, inFile: boolean, file: string): Setting {
  if (environment[name]) return { name, value: HIDDEN, from: 'environment' };
  return inFile ? { name, value: HIDDEN, from: file } : { name, value: 'none', from: 'default' };
}

function tlsFrom(environment: NodeJS.ProcessEnv, inFile: boolean, file: string): string {
  if (Object.keys(environment).some((name) => name.startsWith('TEMPORAL_TLS'))) return 'environment';
  return inFile ? file : 'default';
}
