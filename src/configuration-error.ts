/** The environment does not say what a process needs; each line names a variable and the remedy. */
export class ConfigurationError extends Error {
  readonly code = 'CONFIGURATION';
  constructor(problems: readonly string[], who: 'the worker' | 'the codec server' = 'the worker') {
    super([`${who} cannot start:`, ...problems.map((problem) => `  ${problem}`)].join('\n'));
    this.name = 'ConfigurationError';
  }
}
