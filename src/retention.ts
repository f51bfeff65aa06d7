import { isGrpcServiceError, type Client, type Connection } from '@temporalio/client';

const PERMISSION_DENIED = 7;
const UNIMPLEMENTED = 12;
const ASK_WITHIN_MS = 10_000;
const SECONDS_PER_DAY = 86_400;

/** Days that a namespace should keep closed workflows: a webhook id is known that long after its end (R70). */
export const ENOUGH_DAYS = 30;
/** A worker refuses to start below. */
const LEAST_DAYS = 3;

/** The namespace forgets what has ended too soon. */
export class RetentionTooShort extends Error {
  readonly code = 'RETENTION_TOO_SHORT';
  constructor(namespace: string, days: number) {
    super(
      `the namespace ${namespace} keeps closed workflows for ${days} days only: a webhook that is handed over again after ` +
        'that is delivered twice, one that FAILED cannot be redelivered, and there is no evidence in a dispute. Set 30 days:\n' +
        `  temporal operator namespace update --namespace ${namespace} --retention 720h\n` +
        'or accept it by HOOKLADDER_SHORT_RETENTION=accept',
    );
    this.name = 'RetentionTooShort';
  }
}

/**
 * Checks for how long the namespace keeps closed workflows. Where that may not be asked, it is taken on trust.
 * @param accept - takes less than 3 days; for tests.
 * @returns the days if there should be more of them.
 * @throws {@link RetentionTooShort} below 3 days.
 */
export async function checkRetention(client: Client, accept: boolean): Promise<number | undefined> {
  const { namespace } = client.options;
  const connection = client.connection as Connection;
  const described = await connection
    .withDeadline(Date.now() + ASK_WITHIN_MS, () => client.workflowService.describeNamespace({ namespace }))
    .catch((error: unknown) => {
      const closed = isGrpcServiceError(error) && [PERMISSION_DENIED, UNIMPLEMENTED].includes(error.code);
      if (!closed) throw error;
    });
  const seconds = described?.config?.workflowExecutionRetentionTtl?.seconds;
  // 0 stands for: for ever.
  if (!seconds || Number(seconds) === 0) return undefined;
  const days = Math.round((Number(seconds) / SECONDS_PER_DAY) * 10) / 10;
  if (days < LEAST_DAYS && !accept) throw new RetentionTooShort(namespace, days);
  return days < ENOUGH_DAYS ? days : undefined;
}
