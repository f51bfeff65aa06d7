import { DefaultLogger, Runtime } from '@temporalio/worker';

// Once for each test process, before any connection.
Runtime.install({
  logger: new DefaultLogger('ERROR'),
  telemetryOptions: { logging: { forward: { level: 'ERROR' } } },
});
