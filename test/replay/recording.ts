import { hostname } from 'node:os';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import proto from '@temporalio/proto';

// Not the JSON of Temporal's tools: what the SDK writes and reads it with fails where two of its packages bring protobufjs.
const { History } = proto.temporal.api.history.v1;
type History = proto.temporal.api.history.v1.IHistory;

const FOLDER = join(import.meta.dirname, 'histories');
const SUFFIX = '.binpb.gz';

/** A workflow as the server had it when it was recorded. */
export interface Recording {
  /** The release that ran it, and what it shows, such as `0.1.0/delivery.waiting-slow`. */
  readonly name: string;
  readonly workflowId: string;
  readonly history: History;
  /** The values of all payloads in it. */
  readonly values: readonly unknown[];
}

/** All recordings of all releases. */
export async function readRecordings(): Promise<Recording[]> {
  const releases = await readdir(FOLDER);
  const perRelease = await Promise.all(
    releases.map(async (release) => {
      const files = await readdir(join(FOLDER, release));
      return await Promise.all(files.toSorted().map((file) => readRecording(release, file)));
    }),
  );
  return perRelease.flat();
}

async function readRecording(release: string, file: string): Promise<Recording> {
  const history = History.decode(gunzipSync(await readFile(join(FOLDER, release, file))));
  const started = history.events[0]?.workflowExecutionStartedEventAttributes;
  const values: unknown[] = [];
  visit(history, (each) => {
    const value = valueOf(each);
    if (value !== undefined) values.push(value);
  });
  const name = `${release}/${file.replace(SUFFIX, '')}`;
  return { name, workflowId: started?.workflowId ?? '', history, values };
}

/** The folder of a release, new; `replace` drops one that is there, which else is an error. */
export async function folderFor(release: string, replace: boolean): Promise<string> {
  const folder = join(FOLDER, release);
  if (replace) await rm(folder, { recursive: true, force: true });
  await mkdir(FOLDER, { recursive: true });
  await mkdir(folder);
  return folder;
}

/** Writes a recording, without what it tells of the machine. */
export async function writeRecording(folder: string, name: string, recorded: History): Promise<void> {
  const history = History.decode(History.encode(recorded).finish());
  visit(history, forgetMachine);
  await writeFile(join(folder, name + SUFFIX), gzipSync(History.encode(history).finish(), { level: 9 }));
}

/** Names of processes, and the stack traces of failures, which are also in payloads. */
function forgetMachine(object: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(object)) {
    if (typeof value === 'string')
      object[key] = key === 'stackTrace' ? '' : value.replace(processName, 'recorder');
  }
  const attributes = valueOf(object['encodedAttributes']);
  if (typeof attributes !== 'object') return;
  const data = Buffer.from(JSON.stringify({ ...attributes, stack_trace: '' }));
  object['encodedAttributes'] = { ...(object['encodedAttributes'] as object), data };
}

const processName = new RegExp(`\\d+@${hostname().replaceAll('.', '\\.')}`);

function visit(value: unknown, visitor: (object: Record<string, unknown>) => void): void {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return;
  if (!Array.isArray(value)) visitor(value as Record<string, unknown>);
  for (const inner of Object.values(value)) visit(inner, visitor);
}

/** The value of a payload in JSON; `undefined` of anything else. */
function valueOf(object: unknown): unknown {
  if (typeof object !== 'object' || object === null || !('metadata' in object) || !('data' in object))
    return undefined;
  const { encoding } = (object.metadata ?? {}) as { encoding?: Uint8Array };
  if (Buffer.from(encoding ?? []).toString() !== 'json/plain') return undefined;
  return JSON.parse(Buffer.from(object.data as Uint8Array).toString()) as unknown;
}
