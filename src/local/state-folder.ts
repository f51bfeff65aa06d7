import { constants } from 'node:fs';
import { access, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { newKey, parseKeys } from '../key-list.ts';
import { messageOf } from '../message-of.ts';

/** The folder that should keep the local stack's state cannot be used. */
export class LocalStateNotUsable extends Error {
  override readonly name = 'LocalStateNotUsable';
  readonly code = 'LOCAL_STATE_NOT_USABLE';

  constructor(folder: string, cause: unknown) {
    const reason = messageOf(cause);
    super(
      `The local state cannot be kept in ${folder} (${reason}). ` +
        'Make it a folder that you may write to, or choose another one with --state-folder.',
      { cause },
    );
  }
}

/** Where a local stack keeps what must outlive it. */
export interface StateFolder {
  /** Temporal's state. */
  readonly dbFile: string;
  /** The keys that seal merchants' secrets. */
  readonly keysFile: string;
  /** The keys that encrypt payloads. */
  readonly encryptionKeysFile: string;
  readonly workerLogFile: string;
}

/** Git ignores it. */
const DEFAULT_FOLDER = resolve(import.meta.dirname, '..', '..', '.hookladder');

/**
 * Creates the folder if need be.
 * @param folder - `.hookladder` in the project by default.
 * @throws {@link LocalStateNotUsable} if it cannot be created or written to.
 */
export async function prepareStateFolder(folder: string = DEFAULT_FOLDER): Promise<StateFolder> {
  const path = resolve(folder);
  try {
    await mkdir(path, { recursive: true });
    await access(path, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new LocalStateNotUsable(path, error);
  }
  return {
    dbFile: join(path, 'temporal.db'),
    keysFile: join(path, 'secret-keys'),
    encryptionKeysFile: join(path, 'encryption-keys'),
    workerLogFile: join(path, 'worker.log'),
  };
}

/**
 * Makes the files of keys on the first start and keeps them from then on.
 * @throws {@link LocalStateNotUsable} if a file is there but holds no keys, or cannot be written.
 */
export async function ensureKeyFiles({ keysFile, encryptionKeysFile }: StateFolder): Promise<void> {
  await ensureKeysFile(keysFile, 'secret');
  await ensureKeysFile(encryptionKeysFile, 'encryption');
}

async function ensureKeysFile(path: string, kind: 'secret' | 'encryption'): Promise<void> {
  try {
    await writeFile(path, `${newKey('local')}\n`, { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if (!isAlreadyThere(error)) throw new LocalStateNotUsable(path, error);
    await readFile(path, 'utf8')
      .then((text) => parseKeys(text, kind))
      .catch((unreadable: unknown) => {
        throw new LocalStateNotUsable(path, unreadable);
      });
  }
}

function isAlreadyThere(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EEXIST';
}
