import { styleText } from 'node:util';
import Table from 'cli-table3';
import { createLogUpdate } from 'log-update';
import type { DeliveryState } from '../client.ts';

/** Where a command answers: the result on standard output, all else on standard error. */
export interface Output {
  readonly json: boolean;
  /** The answer of the command, as JSON or in words. */
  result(value: unknown, inWords: () => string): void;
  /** Beside the answer; not with `--json`. */
  note(text: string): void;
  error(error: { readonly code: string; readonly message: string }): void;
}

function say(stream: NodeJS.WriteStream, text: string): void {
  stream.write(`${text}\n`);
}

export function openOutput(json: boolean): Output {
  return {
    json,
    result: (value, inWords) => say(process.stdout, json ? JSON.stringify(value, undefined, 2) : inWords()),
    note: (text) => {
      if (!json) say(process.stderr, text);
    },
    error: (error) =>
      say(process.stderr, json ? JSON.stringify({ error }) : `${paint('red', 'error')}: ${error.message}`),
  };
}

type Cell = string | number | undefined;

/** Columns without borders, to be read and to be cut out. */
export function columns(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const table = new Table({
    head: head.map((text) => paint('bold', text)),
    chars: none,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
  });
  for (const row of rows) table.push(row.map((cell) => oneLine(cell)));
  return trimmed(table.toString());
}

/** Names and values; a value that is `undefined` is left out. */
export function facts(values: Readonly<Record<string, Cell>>): string {
  const table = new Table({
    chars: none,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
  });
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) table.push([paint('dim', name), oneLine(value)]);
  }
  return trimmed(table.toString());
}

/** A bar on a terminal; a line for each tenth elsewhere; nothing with `--json`. */
export interface ProgressBar {
  show(share: number, words: string): void;
  end(): void;
}

export function openProgressBar(out: Output): ProgressBar {
  if (out.json) return { show: () => undefined, end: () => undefined };
  if (process.stderr.isTTY) {
    const live = createLogUpdate(process.stderr);
    return { show: (share, words) => live(`${bar(share)} ${words}`), end: () => live.done() };
  }
  let told = -1;
  return {
    show: (share, words) => {
      const tenth = Math.floor(share * 10);
      if (tenth === told) return;
      told = tenth;
      out.note(words);
    },
    end: () => undefined,
  };
}

export function stateColoured(state: DeliveryState): string {
  return paint(colours[state], state);
}

export function paint(style: Parameters<typeof styleText>[0], text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

const colours = {
  delivered: 'green',
  failed: 'red',
  'own-fault': 'red',
  cancelled: 'gray',
  attempting: 'cyan',
  'waiting-fast': 'yellow',
  'waiting-slow': 'yellow',
  'held-breaker': 'yellow',
  'held-no-endpoint': 'yellow',
  'held-paused': 'yellow',
} as const satisfies Record<DeliveryState, string>;

const BAR = 30;

function bar(share: number): string {
  const full = Math.round(Math.min(1, share) * BAR);
  return `${'█'.repeat(full)}${'░'.repeat(BAR - full)} ${String(Math.floor(share * 100)).padStart(3)} %`;
}

const none = Object.fromEntries(
  [
    'top',
    'top-mid',
    'top-left',
    'top-right',
    'bottom',
    'bottom-mid',
    'bottom-left',
    'bottom-right',
    'left',
    'left-mid',
    'mid',
    'mid-mid',
    'right',
    'right-mid',
    'middle',
  ].map((place) => [place, '']),
);

function oneLine(value: Cell): string {
  return String(value ?? '').replaceAll(/\s+/g, ' ');
}

function trimmed(text: string): string {
  return text.replaceAll(/[ ]+$/gm, '');
}
