import { VERSION } from './version.ts';

/** Workflow code that was bundled beforehand, as files in a folder: `scripts/bundle.ts` writes them, workers read them. */
const MARK = '// hookladder ';

/** Code that traces has more in it; each worker takes its own. */
export function bundleName(traces: boolean): string {
  return traces ? 'workflows-traced.js' : 'workflows.js';
}

/** Marks code with the version that made it. */
export function bundleFile(code: string): string {
  return `${MARK}${VERSION}\n${code}`;
}

/** What the mark of a file says. */
export function bundleHeader(file: string): { readonly version: string | undefined } {
  const [line = ''] = file.split('\n', 1);
  return { version: line.startsWith(MARK) ? line.slice(MARK.length) : undefined };
}
