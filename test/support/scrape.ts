/** One line of a scrape. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** What Prometheus would fetch, as text. */
export async function fetchMetrics(port: number): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  return await response.text();
}

/** The samples of the text format; the labels of this product have no escapes. */
export function samplesOf(text: string): Sample[] {
  return [...text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)].map(([, name = '', labels = '', value]) => ({
    name,
    labels: Object.fromEntries(
      [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', of = '']) => [label, of]),
    ),
    value: Number(value),
  }));
}

/** The values of all samples of a name that have these labels. */
export function valuesOf(
  samples: readonly Sample[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number[] {
  return samples
    .filter((sample) => sample.name === name)
    .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
    .map(({ value }) => value);
}

/** Their sum. */
export function sumOf(...args: Parameters<typeof valuesOf>): number {
  return valuesOf(...args).reduce((sum, value) => sum + value, 0);
}
