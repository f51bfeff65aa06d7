import { once } from 'node:events';
import { runOnLocalStack } from './run-stack.ts';
import type { LocalStack } from './stack.ts';

/**
 * Runs the local stack, with nothing on it, until SIGINT or SIGTERM.
 * @returns the exit code of the process.
 */
export async function runBareStack(stateFolder: string | undefined): Promise<number> {
  const screen = { say: (text: string) => console.log(text), end: () => undefined };
  return await runOnLocalStack({ screen, stateFolder }, async (stack, signal) => {
    screen.say(howToUse(stack));
    if (!signal.aborted) await once(signal, 'abort');
    await stack.stop();
    return 0;
  });
}

function howToUse({
  address,
  uiUrl,
  codecUrl,
  keysFile,
  encryptionKeysFile,
  workerLogFile,
}: LocalStack): string {
  return [
    '',
    `Temporal UI   ${uiUrl}`,
    `Codec server  ${codecUrl}`,
    `Worker log    ${workerLogFile}`,
    '',
    'In another terminal:',
    `  export TEMPORAL_ADDRESS=${address} HOOKLADDER_SECRET_KEYS_FILE=${keysFile}`,
    `  export HOOKLADDER_ENCRYPTION_KEYS_FILE=${encryptionKeysFile}`,
    '  export HOOKLADDER_ALLOWED_NETWORKS=127.0.0.0/8,::1/128',
    '',
    'Ctrl-C ends it.',
  ].join('\n');
}
