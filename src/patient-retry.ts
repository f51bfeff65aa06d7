import { defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';

/**
 * Retry of calls to Temporal, as an interceptor of a connection: from 30 ms, 500 ms at most, about 17 s in all.
 * Entities that continue as new turn signals away for a moment: the SDK's own retry would begin
 * too late (1.7 s).
 */
export function patientRetry(): ReturnType<typeof makeGrpcRetryInterceptor> {
  return makeGrpcRetryInterceptor(
    defaultGrpcRetryOptions({
      initialIntervalMs: () => 30,
      factor: 1.5,
      maxIntervalMs: () => 500,
      maxAttempts: 40,
    }),
  );
}
