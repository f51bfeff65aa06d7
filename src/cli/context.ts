import { userInfo } from 'node:os';
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Cause, Hookladder } from '../client.ts';
import { MerchantNotFound } from '../errors.ts';
import { EXIT, exitCodeOf, UsageError } from './exit-codes.ts';
import { openOutput, type Output } from './output.ts';

/** Options of every command. */
export interface GlobalOptions {
  readonly json?: boolean;
  readonly address?: string;
  readonly namespace?: string;
  readonly profile?: string;
  /** Seconds. */
  readonly timeout?: number;
}

/** What a command works with. */
export interface Context {
  readonly hooks: Hookladder;
  readonly out: Output;
}

export function globalsOf(command: CommandUnknownOpts): GlobalOptions {
  return command.optsWithGlobals();
}

/** Flags win over the environment, as the environment wins over a profile. */
export function applyFlags({ address, namespace, profile }: GlobalOptions): void {
  const flags = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, TEMPORAL_PROFILE: profile };
  for (const [name, value] of Object.entries(flags)) if (value !== undefined) process.env[name] = value;
}

/**
 * Runs a command that talks to Temporal and sets the exit code.
 * @param work - returns an exit code; 0 if it returns nothing.
 */
export async function run(
  command: CommandUnknownOpts,
  work: (context: Context) => Promise<number | void>,
  { allowHttp = false }: { readonly allowHttp?: boolean | undefined } = {},
): Promise<void> {
  const globals = globalsOf(command);
  await guarded(command, async (out) => {
    applyFlags(globals);
    // Loaded only now, so that help and completion answer at once.
    const client = await import('../client.ts');
    const hooks = new client.Hookladder({
      allowHttp,
      ...(globals.timeout === undefined ? {} : { connectTimeoutMs: globals.timeout * 1_000 }),
    });
    try {
      return await work({ hooks, out });
    } finally {
      await hooks.close();
    }
  });
}

/** Turns errors into words and exit codes. */
export async function guarded(
  command: CommandUnknownOpts,
  work: (out: Output) => Promise<number | void>,
): Promise<void> {
  const out = openOutput(globalsOf(command).json ?? false);
  try {
    process.exitCode = (await work(out)) ?? EXIT.done;
  } catch (error) {
    const exitCode = exitCodeOf(error);
    process.exitCode = exitCode ?? EXIT.defect;
    if (exitCode === undefined || !(error instanceof Error)) console.error(error);
    else out.error({ code: 'code' in error ? String(error.code) : 'USAGE', message: error.message });
  }
}

/** Who and why, as the options say; who is the user of this machine by default. */
export function causeOf({ by, why }: { readonly by?: string; readonly why?: string }): Cause {
  return { by: by ?? userName(), ...(why === undefined ? {} : { why }) };
}

/** A container may run as a user that has no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}

/**
 * An operator who misspells an id must not think that there is nothing.
 * @throws {@link MerchantNotFound}
 */
export async function mustBeKnown(hooks: Hookladder, merchantId: string | undefined): Promise<void> {
  if (merchantId === undefined || (await hooks.merchant(merchantId).isKnown())) return;
  if ((await hooks.count({ merchantId })) === 0) throw new MerchantNotFound(merchantId);
}

/** Drops what was not given. */
export function given<T extends Record<string, unknown>>(
  options: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}

/** @param path - `-` for standard input. */
export async function readInput(path: string): Promise<string> {
  if (path === '-') return await text(process.stdin);
  return await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${path} cannot be read (${error.code ?? error.message})`);
  });
}

/** Custom headers in a file, a JSON object of names and values. */
export async function headersOf(path: string | undefined): Promise<Record<string, string> | undefined> {
  if (path === undefined) return undefined;
  try {
    return JSON.parse(await readInput(path)) as Record<string, string>;
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${path} is no JSON: give an object of names and values`);
  }
}
