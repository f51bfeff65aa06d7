/** What of the `OTEL_…` environment decides whether there are traces, and where they go. */
const ENDPOINTS = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] as const;

/** The variables that an operator asks after; OpenTelemetry knows more. */
export const TRACE_VARIABLES = [
  ...ENDPOINTS,
  'OTEL_TRACES_EXPORTER',
  'OTEL_TRACES_SAMPLER',
  'OTEL_SERVICE_NAME',
];

/** Traces are off unless the environment says where they go. */
export function tracesWanted(environment: NodeJS.ProcessEnv): boolean {
  const { OTEL_SDK_DISABLED: disabled, OTEL_TRACES_EXPORTER: exporter } = environment;
  if (disabled?.trim().toLowerCase() === 'true' || exporter === 'none') return false;
  return Boolean(exporter) || ENDPOINTS.some((name) => environment[name]);
}

/** What is wrong with them, by variable. */
export function traceProblems(environment: NodeJS.ProcessEnv): string[] {
  return ENDPOINTS.flatMap((name) => {
    const value = environment[name];
    if (!value || /^https?:$/.test(URL.parse(value)?.protocol ?? '')) return [];
    return [`${name} must be the http:// or https:// address of a collector, such as http://collector:4318`];
  });
}
