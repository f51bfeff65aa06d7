import Table from 'cli-table3';
import type { Judgement } from './oracle.ts';

/** What a run came to, for people: the figures, then whatever is lost or not explained. */
export function reportOf({ figures, findings }: Judgement): string {
  const table = new Table({ head: ['figure', 'count'], style: { head: [], border: [] } });
  for (const [what, count] of Object.entries(figures)) table.push([what, count]);
  const lines = findings.map(
    ({ what, merchantId = '', webhookId = '', detail }) => `${what}: ${merchantId} ${webhookId}: ${detail}`,
  );
  return [table.toString(), `lost or not explained: ${findings.length}`, ...lines].join('\n');
}
