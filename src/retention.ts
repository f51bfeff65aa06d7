import type { Client } from '@temporalio/client';
import { askIfAllowed } from './ask-if-allowed.ts';

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
  const described = await askIfAllowed(client, ({ workflowService }) =>
    workflowService.describeNamespace({ namespace }),
  );
  const seconds = described?.config?.workflowExecutionRetentionTtl?.seconds;
  // 0 stands for: for ever.
  if (!seconds || Number(seconds) === 0) return undefined;
  const days = Math.round((Number(seconds) / SECONDS_PER_DAY) * 10) / 10;
  if (days < LEAST_DAYS && !accept) throw new RetentionTooShort(namespace, days);
  return days < ENOUGH_DAYS ? days : undefined;
}
