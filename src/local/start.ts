/** Entry of `npm start`: the local stack with the demo on it. */
import { parseArgs } from 'node:util';
import { HookladderError } from '../client.ts';
import { runDemo } from './demo.ts';
import { demoNumbers } from './demo-fates.ts';
import { openScreen, type Screen } from './demo-screen.ts';
import {
  LocalSearchAttributeConflict,
  LocalServerExited,
  LocalServerPortTaken,
  LocalServerStartTimeout,
  LocalServerStateInUse,
} from './server-errors.ts';
import { startLocalStack, type LocalStack } from './stack.ts';
import { LocalStateNotUsable } from './state-folder.ts';
import {
  TemporalBinaryNotFound,
  TemporalCliPathInvalid,
  TemporalWheelMismatch,
} from './temporal-binary-errors.ts';

const HELP = `Usage: npm start -- [options]

Starts a local Temporal server with its UI and the workers, and delivers webhooks of every fate to merchants
that are played by this process. Deliveries that are open at the end go on at the next start.

  --once                   end when every delivery of the demo has met its fate:
                           exit code 0, or 1 with what is missing
  --state-folder <folder>  where the state is kept; .hookladder by default
  --help                   this text`;

/** What may go wrong without being a defect: told in words, without a stack trace. */
const EXPECTED = [
  HookladderError,
  LocalSearchAttributeConflict,
  LocalServerExited,
  LocalServerPortTaken,
  LocalServerStartTimeout,
  LocalServerStateInUse,
  LocalStateNotUsable,
  TemporalBinaryNotFound,
  TemporalCliPathInvalid,
  TemporalWheelMismatch,
];

/** npm passes a Ctrl-C on to us, so that the one from the terminal comes twice. */
const SAME_CTRL_C_MS = 1_000;
const EXIT_USAGE = 2;
const EXIT_INTERRUPTED_TWICE = 130;

class Interrupted extends Error {}

interface Arguments {
  readonly once: boolean;
  readonly stateFolder?: string;
}

function readArguments(args: string[]): Arguments | 'help' | { readonly problem: string } {
  try {
    const { values } = parseArgs({
      args,
      options: {
        once: { type: 'boolean', default: false },
        'state-folder': { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) return 'help';
    const stateFolder = values['state-folder'];
    return { once: values.once, ...(stateFolder === undefined ? {} : { stateFolder }) };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

async function main(): Promise<number> {
  const chosen = readArguments(process.argv.slice(2));
  if (chosen === 'help') {
    console.log(HELP);
    return 0;
  }
  if ('problem' in chosen) {
    console.error(`${chosen.problem}\n\n${HELP}`);
    return EXIT_USAGE;
  }
  const screen = openScreen(process.stdout);
  const stacks: LocalStack[] = [];
  const signal = whenInterrupted(screen, stacks);
  try {
    const stack = await startLocalStack({
      policy: demoNumbers,
      log: (line) => screen.say(line),
      signal,
      ...(chosen.stateFolder === undefined ? {} : { stateFolder: chosen.stateFolder }),
    });
    stacks.push(stack);
    const demo = runDemo(stack, { once: chosen.once, screen, signal });
    const ended = await Promise.race([demo, stack.lost]);
    if (typeof ended === 'string') {
      stack.kill();
      screen.end();
      console.error(`${ended}. The worker log may tell why: ${stack.workerLogFile}`);
      return 1;
    }
    if (!chosen.once || ended.length === 0) return 0;
    console.error(['Some deliveries have not met their fate:', ...ended].join('\n'));
    return signal.aborted ? 0 : 1;
  } catch (error) {
    if (signal.aborted) return 0;
    screen.end();
    const expected = EXPECTED.some((type) => error instanceof type);
    console.error(expected && error instanceof Error ? error.message : error);
    return 1;
  }
}

/** The first Ctrl-C ends everything in order, a second one at once. */
function whenInterrupted(screen: Screen, stacks: readonly LocalStack[]): AbortSignal {
  const controller = new AbortController();
  let since = 0;
  const interrupt = (): void => {
    if (!controller.signal.aborted) {
      since = Date.now();
      controller.abort(new Interrupted('interrupted'));
      screen.end();
      screen.say('Stopping: attempts under way may finish. Ctrl-C again stops at once.');
    } else if (Date.now() - since > SAME_CTRL_C_MS) {
      for (const stack of stacks) stack.kill();
      process.exit(EXIT_INTERRUPTED_TWICE);
    }
  };
  process.on('SIGINT', interrupt);
  process.on('SIGTERM', interrupt);
  // Whoever watched has gone, as with `npm start | head`.
  process.stdout.on('error', () => {
    if (!controller.signal.aborted) interrupt();
  });
  return controller.signal;
}

// Not left to the event loop: a download that was interrupted would keep the process alive.
process.exit(await main());
