import { trace, type TracerProvider } from '@opentelemetry/api';
import { Client } from '@temporalio/client';
import { OpenTelemetryWorkflowClientInterceptor } from '@temporalio/interceptors-opentelemetry/lib/client/index.js';
import { tracesWanted } from '../trace-settings.ts';
import { VERSION } from '../version.ts';

/** The same client, whose calls are spans and which hands the trace of its caller on; as it is if traces are off. */
export function tracedClient(client: Client, provider: TracerProvider | undefined): Client {
  if (provider === undefined && !tracesWanted(process.env)) return client;
  const tracer = (provider ?? trace.getTracerProvider()).getTracer('hookladder', VERSION);
  const { workflow: others, ...interceptors } = client.options.interceptors;
  if (!Array.isArray(others)) return client;
  return new Client({
    ...client.options,
    connection: client.connection,
    interceptors: {
      ...interceptors,
      workflow: [new OpenTelemetryWorkflowClientInterceptor({ tracer }), ...others],
    },
  });
}
