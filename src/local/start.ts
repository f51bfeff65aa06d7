/** Entry of `npm start`: the local stack with the demo on it. */
import { parseArgs } from 'node:util';
import { runDemo } from './demo.ts';
import { demoNumbers } from './demo-fates.ts';
import { openScreen } from './demo-screen.ts';
import { runOnLocalStack } from './run-stack.ts';
import { messageOf } from '../message-of.ts';

const HELP = `Usage: npm start -- [options]

Starts a local Temporal server with its UI and the workers, and delivers webhooks of every fate to merchants
that are played by this process. Deliveries that are open at the end go on at the next start.

  --once                   end when every delivery of the demo has met its fate:
                           exit code 0, or 1 with what is missing
  --state-folder <folder>  where the state is kept; .hookladder by default
  --help                   this text`;

const EXIT_USAGE = 2;

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
    return { problem: messageOf(error) };
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
  return await runOnLocalStack(
    { screen, policy: demoNumbers, stateFolder: chosen.stateFolder },
    async (stack, signal) => {
      const missing = await runDemo(stack, { once: chosen.once, screen, signal });
      if (!chosen.once || missing.length === 0) return 0;
      console.error(['Some deliveries have not met their fate:', ...missing].join('\n'));
      return signal.aborted ? 0 : 1;
    },
  );
}

// Not left to the event loop: a download that was interrupted would keep the process alive.
process.exit(await main());
