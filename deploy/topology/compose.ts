import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

/** The repository. */
export const ROOT = join(import.meta.dirname, '..', '..');

/** What docker-compose.yml says of a service, as it holds for a process on this machine. */
export interface Service {
  readonly environment: Readonly<Record<string, string>>;
  readonly command: readonly string[];
  /** Program and arguments. */
  readonly healthcheck: readonly string[];
  readonly replicas: number;
}

/** Where on this machine is what containers have to themselves. */
export interface Place {
  /** By the ports that compose names. */
  readonly ports: Readonly<Record<number, number>>;
  /** The folder of the files of keys. */
  readonly secrets: string;
  /** The folder with the contents of the image. */
  readonly image: string;
}

interface ComposeService {
  readonly environment?: Readonly<Record<string, string>>;
  readonly command?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly deploy?: { readonly replicas?: number };
}

/**
 * Reads a service from docker-compose.yml, with what stands in for `${…}` and with addresses and folders of this machine.
 * @throws Error naming the variable or the service that is missing.
 */
export function readService(name: string, values: Readonly<Record<string, string>>, place: Place): Service {
  const text = readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8');
  const filledIn = (_: unknown, value: unknown) =>
    typeof value === 'string' ? onThisMachine(fillIn(value, values), place) : value;
  const { services } = parse(text, filledIn, { merge: true }) as {
    services: Readonly<Record<string, ComposeService>>;
  };
  const service = services[name];
  if (service === undefined) throw new Error(`docker-compose.yml has no service ${name}`);
  const [how, ...test] = service.healthcheck?.test ?? [];
  return {
    environment: service.environment ?? {},
    command: service.command ?? [],
    healthcheck: how === 'CMD-SHELL' ? ['sh', '-c', ...test] : test,
    replicas: service.deploy?.replicas ?? 1,
  };
}

/** The environment that the Dockerfile gives to every process of the image. */
export function readImageEnvironment(place: Place): Record<string, string> {
  const text = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const [, block = ''] = /^ENV ((?:.*\\\n)*.*)$/m.exec(text) ?? [];
  return Object.fromEntries(
    [...block.matchAll(/(\w+)=(\S+)/g)].map(([, name = '', value = '']) => [
      name,
      onThisMachine(value, place),
    ]),
  );
}

/** As Compose does: `$$`, `${NAME:-default}`, `${NAME-default if it is not set at all}`, `${NAME:?what to do}`. */
function fillIn(text: string, values: Readonly<Record<string, string>>): string {
  return text.replaceAll(
    /\$\$|\$\{(\w+)(:-|-|:\?)([^}]*)\}/g,
    (whole, name: string, how: string, rest: string) => {
      if (whole === '$$') return '$';
      const value = values[name];
      if (value !== undefined && (value !== '' || how === '-')) return value;
      if (how === ':?') throw new Error(`${name} is not set: ${rest}`);
      return rest;
    },
  );
}

function onThisMachine(text: string, { ports, secrets, image }: Place): string {
  return text
    .replace(/^(?:postgresql$|temporal(?=:\d))/, '127.0.0.1')
    .replace('0.0.0.0', '127.0.0.1')
    .replaceAll('/run/secrets/', `${secrets}/`)
    .replaceAll('/hookladder/', `${join(ROOT, 'deploy', 'temporal')}/`)
    .replace(/^\/app\//, `${image}/`)
    .replaceAll(new RegExp(`\\b(?:${Object.keys(ports).join('|')})\\b`, 'g'), (port) =>
      String(ports[Number(port)]),
    );
}
