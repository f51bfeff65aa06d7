/** The command line: its commands and what they share. */
import tab from '@bomb.sh/tab/commander';
import { Command, CommanderError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Command as PlainCommand } from 'commander';
import { VERSION } from '../version.ts';
import { breakerCommand } from './breakers.ts';
import { bulkCommand } from './bulk.ts';
import { deliveryCommands } from './deliveries.ts';
import { doctorCommand } from './doctor.ts';
import { EXIT, EXIT_HELP } from './exit-codes.ts';
import { exportCommand } from './export.ts';
import { listenCommand } from './listen.ts';
import { merchantCommand } from './merchants.ts';
import { positive } from './options.ts';
import { processCommands } from './processes.ts';
import { watchCommand } from './watch.ts';

const program = new Command('hookladder')
  .description('Durable webhook delivery: find a webhook, understand it, fix it.')
  .version(VERSION)
  .option('--json', 'answer in JSON on standard output, errors in JSON on standard error')
  .option('--address <host:port>', 'of Temporal, instead of TEMPORAL_ADDRESS')
  .option('--namespace <name>', 'instead of TEMPORAL_NAMESPACE')
  .option('--profile <name>', 'of the Temporal configuration file, instead of TEMPORAL_PROFILE')
  .option('--timeout <seconds>', 'of one call to Temporal, 10 by default', positive)
  .configureOutput({
    outputError: (text, write) => {
      const message = text.trim().replace(/^error: /, '');
      write(
        process.argv.includes('--json') ? `${JSON.stringify({ error: { code: 'USAGE', message } })}\n` : text,
      );
    },
  })
  .configureHelp({ showGlobalOptions: true })
  // What is alike may do the opposite: `resume` for `reset`.
  .showSuggestionAfterError(false)
  .addHelpText('after', `\n${EXIT_HELP}`);

const commands: CommandUnknownOpts[] = [
  ...deliveryCommands(),
  exportCommand(),
  merchantCommand(),
  breakerCommand(),
  bulkCommand(),
  watchCommand(),
  listenCommand(),
  doctorCommand(),
  ...processCommands(),
];
for (const command of commands) inherit(program.addCommand(command), command);
tab(program as unknown as PlainCommand, { completionCommandName: 'completion' });

/** Added commands take nothing over by themselves. */
function inherit(parent: CommandUnknownOpts, command: CommandUnknownOpts): void {
  command.copyInheritedSettings(parent);
  command.exitOverride();
  for (const each of command.commands) inherit(command, each);
}

// A reader that has gone, as with `hookladder list | head`.
process.stdout.on('error', () => process.exit(EXIT.done));

program.exitOverride();
try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  // Help and version are no errors; what else the parser refuses, it has told.
  process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
}
