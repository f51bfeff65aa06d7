import { styleText } from 'node:util';
import Table from 'cli-table3';
import { createLogUpdate } from 'log-update';
import { statusInWords } from '../policy/status.ts';
import type { Shown } from './demo-deliveries.ts';
import { policyOf, waitInWords } from './demo-words.ts';

/** Where the demo is watched. */
export interface Screen {
  /** Writes text that stays, each line whole, so that a link can be followed from it. */
  say(text: string): void;
  /** Shows where the deliveries are now. */
  show(deliveries: readonly Shown[]): void;
  /** Leaves the last state standing; more may be said, nothing more be shown. */
  end(): void;
}

/** A live table on a terminal; anywhere else a line for each change. */
export function openScreen(stream: NodeJS.WriteStream): Screen {
  return stream.isTTY ? terminal(stream) : plainLines(stream);
}

function terminal(stream: NodeJS.WriteStream): Screen {
  const live = createLogUpdate(stream);
  let table: string | undefined;
  return {
    say(text) {
      live.clear();
      stream.write(`${text}\n`);
      if (table !== undefined) live(table);
    },
    show(deliveries) {
      table = tableOf(deliveries, stream.columns, Date.now());
      live(table);
    },
    end() {
      table = undefined;
      live.done();
    },
  };
}

function plainLines(stream: NodeJS.WritableStream): Screen {
  const told = new Map<Shown, string>();
  return {
    say: (text) => void stream.write(`${text}\n`),
    show(deliveries) {
      for (const each of deliveries) {
        const words = plainWords(each);
        if (words === undefined || told.get(each) === words) continue;
        told.set(each, words);
        stream.write(`${each.number} ${each.delivery.merchantId} ${words}\n`);
      }
    },
    end: () => undefined,
  };
}

function plainWords(shown: Shown): string | undefined {
  const { status, trouble } = shown;
  return status === undefined ? trouble : `[${status.state}] ${statusInWords(status, policyOf(shown))}`;
}

const NUMBER_WIDTH = 4;
const MERCHANT_WIDTH = 17;
const STORY_WIDTH = 40;
/** Narrower terminals have no room for the story beside the words, which need about 60 characters. */
const STORY_FROM_COLUMNS = 110;

function tableOf(deliveries: readonly Shown[], columns: number, now: number): string {
  const withStory = columns >= STORY_FROM_COLUMNS;
  const fixed = [NUMBER_WIDTH, MERCHANT_WIDTH, ...(withStory ? [STORY_WIDTH] : [])];
  // A character for each border; a line that fills the terminal to the last column would wrap on some.
  const rest = columns - fixed.reduce((sum, width) => sum + width, 0) - fixed.length - 3;
  const table = new Table({
    head: ['#', 'merchant', ...(withStory ? ['what is to be seen'] : []), 'now'],
    colWidths: [...fixed, Math.max(20, rest)],
    wordWrap: true,
    style: { head: ['bold'], border: ['grey'], compact: true },
  });
  for (const each of deliveries) {
    const { number, delivery, fate } = each;
    const story = withStory ? [fate?.story ?? `webhook ${delivery.webhookId}`] : [];
    table.push([number, delivery.merchantId, ...story, liveWords(each, now)]);
  }
  return table.toString();
}

function liveWords(shown: Shown, now: number): string {
  const { status, trouble } = shown;
  if (status === undefined) return trouble ?? '…';
  return styleText(colourOf(status.state), waitInWords(status, policyOf(shown), now));
}

function colourOf(state: NonNullable<Shown['status']>['state']) {
  switch (state) {
    case 'delivered':
      return 'green';
    case 'failed':
    case 'own-fault':
      return 'red';
    case 'cancelled':
      return 'gray';
    case 'attempting':
      return 'cyan';
    case 'waiting-fast':
    case 'waiting-slow':
    case 'held-no-endpoint':
    case 'held-breaker':
    case 'held-paused':
      return 'yellow';
  }
}
