/** The server process ended before it could be used. */
export class LocalServerExited extends Error {
  override readonly name = 'LocalServerExited';
  readonly code = 'LOCAL_SERVER_EXITED';

  constructor(how: string, outputTail: string) {
    super(
      `The local Temporal server ended before it was ready (${how}). ` +
        `Check the options that it was started with; its last output was:\n${outputTail || '(none)'}`,
    );
  }
}

/** Another process listens where the server should. */
export class LocalServerPortTaken extends Error {
  override readonly name = 'LocalServerPortTaken';
  readonly code = 'LOCAL_SERVER_PORT_TAKEN';
  readonly port: number;

  constructor(port: number, use: string) {
    super(
      `Port ${port}, wanted for the local Temporal server's ${use}, is taken. ` +
        'Stop what listens there, or choose another port.',
    );
    this.port = port;
  }
}

/** The server runs, but could not be used within the limit. */
export class LocalServerStartTimeout extends Error {
  override readonly name = 'LocalServerStartTimeout';
  readonly code = 'LOCAL_SERVER_START_TIMEOUT';

  constructor(limitMs: number, outputTail: string, cause: unknown) {
    super(
      `The local Temporal server was not ready within ${limitMs} ms and was stopped ` +
        `(${cause instanceof Error ? cause.message : 'it did not listen'}). ` +
        `Raise startTimeoutMs on a slow machine; its last output was:\n${outputTail || '(none)'}`,
      { cause },
    );
  }
}

/** Another server keeps its state in the same file. */
export class LocalServerStateInUse extends Error {
  override readonly name = 'LocalServerStateInUse';
  readonly code = 'LOCAL_SERVER_STATE_IN_USE';

  constructor(dbFile: string, lockFile: string, user: string) {
    super(
      `${dbFile} is in use by ${user}. Stop that one first, or choose another file; ` +
        `if nothing runs any more, delete ${lockFile}.`,
    );
  }
}

/** A kept state file knows a search attribute by another type, and a type cannot be changed. */
export class LocalSearchAttributeConflict extends Error {
  override readonly name = 'LocalSearchAttributeConflict';
  readonly code = 'LOCAL_SEARCH_ATTRIBUTE_CONFLICT';

  constructor(attribute: string, wanted: string, kept: string) {
    super(
      `The kept state has search attribute ${attribute} as ${kept}, wanted ${wanted}. ` +
        'Delete the state file (which loses its workflows), or give the attribute a new name.',
    );
  }
}
