import { randomBytes } from 'node:crypto';
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { applyFlags, globalsOf, guarded } from './context.ts';
import { UsageError } from './exit-codes.ts';
import { columns } from './output.ts';

/** Commands that run processes, and the one that shows what they would run with. */
export function processCommands(): CommandUnknownOpts[] {
  return [worker(), codecServer(), keys(), up(), config()];
}

function worker() {
  return new Command('worker')
    .description('run a worker in this process; it is configured by its environment')
    .addHelpText(
      'after',
      `
SIGTERM lets attempts under way finish. Logs are JSON lines on standard output.

Example:
  TEMPORAL_ADDRESS=temporal:7233 HOOKLADDER_SECRET_KEYS_FILE=/run/secrets/hookladder hookladder worker`,
    )
    .action(async (_, command) => {
      applyFlags(globalsOf(command));
      await import('../worker.ts');
    });
}

function codecServer() {
  return new Command('codec-server')
    .description('run a codec server for the Temporal UI and CLI; it is configured by its environment')
    .addHelpText(
      'after',
      `
SIGTERM ends it. Requests are logged as JSON lines on standard output, never what is in them.

Example:
  HOOKLADDER_ENCRYPTION_KEYS_FILE=/run/secrets/encryption-keys HOOKLADDER_CODEC_TOKENS_FILE=/run/secrets/codec-tokens \\
    HOOKLADDER_CODEC_ORIGINS=https://temporal.example hookladder codec-server`,
    )
    .action(async (_, command) => {
      await guarded(command, async () => {
        const { runCodecServer } = await import('../codec-server/main.ts');
        await runCodecServer(process.env);
      });
    });
}

function keys() {
  const make = new Command('new')
    .description('print a new random key, as a line for a file of encryption keys or of secret keys')
    .argument('[id]', '1 to 32 of A-Za-z0-9_-; made of the date by default')
    .addHelpText('after', '\nExample:\n  (umask 077; hookladder keys new > encryption-keys)')
    .action(async (id, _, command) => {
      await guarded(command, async (out) => {
        const { newKey, parseKeys } = await import('../key-list.ts');
        const day = new Date().toISOString().slice(0, 10);
        const line = newKey(id ?? `k-${day}-${randomBytes(2).toString('hex')}`);
        try {
          parseKeys(line, 'encryption');
        } catch {
          throw new UsageError('the id must be 1 to 32 of A-Za-z0-9_-');
        }
        out.result({ key: line }, () => line);
      });
    });
  return new Command('keys').description('keys that encrypt payloads and seal secrets').addCommand(make);
}

function up() {
  return new Command('up')
    .description('run a local Temporal server with its UI, and a worker; state is kept')
    .option('--state-folder <path>', 'where the state is kept; .hookladder beside the package by default')
    .addHelpText(
      'after',
      '\nCtrl-C ends it; a second start goes on with what was open.\n\nExample:\n  hookladder up',
    )
    .action(async (options) => {
      const { runBareStack } = await import('../local/bare-stack.ts');
      // Not left to the event loop: a download that was interrupted would keep the process alive.
      process.exit(await runBareStack(options.stateFolder));
    });
}

function config() {
  return new Command('config')
    .description('the settings in force and where each came from; never a key or a secret')
    .addHelpText('after', '\nExample:\n  hookladder config --json')
    .action(async (_, command) => {
      await guarded(command, async (out) => {
        const { settingsInForce } = await import('../settings-in-force.ts');
        const { address, namespace, profile } = globalsOf(command);
        const settings = settingsInForce(process.env, { address, namespace, profile });
        out.result(settings, () =>
          columns(
            ['SETTING', 'VALUE', 'FROM'],
            settings.map(({ name, value, from }) => [name, value, from]),
          ),
        );
      });
    });
}
