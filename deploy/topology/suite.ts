/** Which of the tests run on the topology, by whose workers, and why others do not. */

/** Worked by the two processes of the image. */
export const BY_IMAGE_WORKERS: readonly string[] = [
  'test/workflows/delivery.test.ts',
  'test/workflows/entity-runs.test.ts',
  'test/workflows/bulk.test.ts',
  'test/client/list.test.ts',
  'test/client/redeliver.test.ts',
  'test/client/operate-endpoint.test.ts',
  'test/any-language/malformed-signals.test.ts',
  'test/any-language/wrong-input.test.ts',
  'test/examples/service.test.ts',
  'test/examples/outbox.test.ts',
  'test/codec-server/temporal-cli.test.ts',
  'test/docs/operations.test.ts',
];

/** Kill the processes of the topology, and look into its database. The last, as it dumps what all have left. */
export const KILLS: readonly string[] = ['deploy/topology/kills.test.ts'];

/**
 * These need workers with settings of their own, or none at times: they start them, after those of the topology have shut
 * down. Whose workers are processes has processes of the image.
 */
export const BY_OWN_WORKERS: readonly string[] = [
  'test/reliability/kill.test.ts',
  'test/reliability/drain-page.test.ts',
  'test/workflows/breaker.test.ts',
  'test/workflows/notices.test.ts',
  'test/client/deliver.test.ts',
  'test/client/endpoint.test.ts',
  'test/client/what-is-sent.test.ts',
  'test/cli/commands.test.ts',
  'test/cli/bulk.test.ts',
  'test/encryption/rotation.test.ts',
  'test/activities/explained-verdicts.test.ts',
  'test/any-language/temporal-cli.test.ts',
  'test/any-language/python.test.ts',
];

/** What knows a server, and cannot run here. */
export const NOT_HERE: Readonly<Record<string, string>> = {
  'test/workflows/time-skipping.test.ts, test/vectors':
    'skip the time of the server, which a server in production does not allow',
  'test/reliability/restart.test.ts, test/reliability/server-away.test.ts':
    'restart a server of their own; here `deploy/topology/kills.test.ts` kills the real one',
  'test/encryption/store.test.ts':
    'reads the file of a server of its own; here `deploy/topology/kills.test.ts` dumps PostgreSQL',
  'test/local, test/ui, test/cli/processes.test.ts': 'are about the local stack, which has its own server',
  'test/workflows/costs.test.ts, test/traces, test/worker':
    'count requests, metrics, spans and lines of a worker, whatever its server',
  'all others': 'know no server',
};
