import {
  BulkNotFound,
  DeliveryNotFound,
  HookladderError,
  IdConflict,
  MerchantNotFound,
  NoEndpoint,
  NoRotation,
  NoWorker,
  OwnFault,
  TemporalUnavailable,
} from '../errors.ts';

/** The exit codes of `hookladder`: stable, for scripts. */
export const EXIT = {
  /** It was done, or the question was answered. */
  done: 0,
  /** A defect, or the worker or local stack could not start or ended by itself. */
  defect: 1,
  /** Wrong arguments, configuration or input: nothing was done. */
  usage: 2,
  /** No such delivery, merchant, endpoint or bulk command. */
  notFound: 3,
  /** Temporal cannot be reached. */
  temporal: 4,
  /** Temporal answers, but no worker does. */
  noWorker: 5,
  /** Understood, but not done, or without the result that was asked for. */
  notDone: 6,
  /** `doctor` found warnings, and nothing worse. */
  warnings: 7,
  /** `doctor` found faults. */
  faults: 8,
  /** Ctrl-C. */
  interrupted: 130,
} as const;

/** What the codes mean, for the help. */
export const EXIT_HELP = `Exit codes: 0 done; 1 defect, or a worker or local stack that cannot start; 2 wrong arguments or
input; 3 no such delivery, merchant, endpoint or bulk command; 4 Temporal cannot be reached; 5 no worker answers;
6 not done, such as a redelivery that needs --force or a webhook that is not delivered; 7 warnings, 8 faults of an
endpoint that doctor examined; 130 interrupted.`;

/** An argument that the parser cannot judge is wrong. */
export class UsageError extends HookladderError {
  readonly code = 'USAGE';
}

/** @returns `undefined` for a defect, which is shown with its stack. */
export function exitCodeOf(error: unknown): number | undefined {
  const notFound = [DeliveryNotFound, MerchantNotFound, BulkNotFound, NoEndpoint];
  if (notFound.some((type) => error instanceof type)) return EXIT.notFound;
  if (error instanceof TemporalUnavailable) return EXIT.temporal;
  if (error instanceof NoWorker) return EXIT.noWorker;
  if ([IdConflict, NoRotation, OwnFault].some((type) => error instanceof type)) return EXIT.notDone;
  return error instanceof HookladderError || isWrongSetting(error) ? EXIT.usage : undefined;
}

/** Keys that cannot be read, networks that are none, a Temporal profile that is malformed. */
function isWrongSetting(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  return code === 'SECRET_KEY' || code === 'CONFIGURATION' || error.message.startsWith('HOOKLADDER_');
}
