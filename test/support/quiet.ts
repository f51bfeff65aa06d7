import { DefaultLogger, Runtime } from '@temporalio/worker';

// As a service would have it. Any client of the suite reads what any worker of it wrote.
process.env['HOOKLADDER_ENCRYPTION_KEYS'] ??= `test:${Buffer.alloc(32, 9).toString('base64')}`;

// Once for each test process, before any connection.
Runtime.install({
  logger: new DefaultLogger('ERROR'),
  telemetryOptions: { logging: { forward: { level: 'ERROR' } } },
});
