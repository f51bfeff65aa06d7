import { activityInfo, ApplicationFailure } from '@temporalio/activity';

/**
 * R6: a fault of our own before the POST. Thrown by an activity, it is retried by Temporal, is neither
 * attempt nor sample, and shows as state `own-fault` with the error and since when.
 */
export function ownFault(message: string, cause?: unknown): ApplicationFailure {
  return ApplicationFailure.create({
    type: OWN_FAULT,
    message: cause instanceof Error ? `${message}: ${cause.message}` : message,
    details: [{ since: new Date(activityInfo().scheduledTimestampMs).toISOString() }],
  });
}

export const OWN_FAULT = 'OwnFault';
