import { HookladderError } from '../client.ts';
import type { PolicyOverrides } from '../policy/policy.ts';
import type { Screen } from './demo-screen.ts';
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
const EXIT_INTERRUPTED_TWICE = 130;

class Interrupted extends Error {}

/**
 * Starts the local stack, works on it, and ends it in order. Takes SIGINT and SIGTERM.
 * @param work - returns the exit code; its signal is aborted when the process is to end.
 * @returns the exit code of the process.
 */
export async function runOnLocalStack(
  options: {
    readonly screen: Pick<Screen, 'say' | 'end'>;
    readonly stateFolder?: string | undefined;
    readonly policy?: PolicyOverrides;
  },
  work: (stack: LocalStack, signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const { screen, stateFolder, policy } = options;
  const stacks: LocalStack[] = [];
  const signal = whenInterrupted(screen, stacks);
  try {
    const stack = await startLocalStack({
      log: (line) => screen.say(line),
      signal,
      ...(policy === undefined ? {} : { policy }),
      ...(stateFolder === undefined ? {} : { stateFolder }),
    });
    stacks.push(stack);
    const ended = await Promise.race([work(stack, signal), stack.lost]);
    if (typeof ended === 'number') return ended;
    stack.kill();
    screen.end();
    console.error(`${ended}. The worker log may tell why: ${stack.workerLogFile}`);
    return 1;
  } catch (error) {
    if (signal.aborted) return 0;
    screen.end();
    const expected = EXPECTED.some((type) => error instanceof type);
    console.error(expected && error instanceof Error ? error.message : error);
    return 1;
  }
}

/** The first Ctrl-C ends everything in order, a second one at once. */
function whenInterrupted(screen: Pick<Screen, 'say' | 'end'>, stacks: readonly LocalStack[]): AbortSignal {
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
