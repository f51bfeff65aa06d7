/** A sender on a table, as it is written at home: takes a row, posts, marks it; its argument is the database's address. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { Agent } from 'undici';

const LANES = 20;
const EMPTY_MS = 20;
const agent = new Agent({ connections: 64, keepAliveTimeout: 4_000 });
const pool = new Pool({ connectionString: process.argv[2], max: LANES });

/** Posts the oldest row that nobody else has in hand. Tells whether there was one. */
async function takeOne(): Promise<boolean> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const { rows } = await client.query<{ id: string; url: string; body: string }>(
      'SELECT id, url, body FROM webhook WHERE delivered_at IS NULL ORDER BY position LIMIT 1 FOR UPDATE SKIP LOCKED',
    );
    const [row] = rows;
    if (row !== undefined) {
      const { origin, pathname } = new URL(row.url);
      const headers = { 'Content-Type': 'application/json', 'X-Webhook-Id': row.id };
      const { statusCode, body } = await agent.request({
        origin,
        path: pathname,
        method: 'POST',
        headers,
        body: row.body,
      });
      await body.dump();
      if (statusCode < 300) {
        await client.query('UPDATE webhook SET delivered_at = now() WHERE id = $1', [row.id]);
      }
    }
    await client.query('COMMIT');
    return row !== undefined;
  } finally {
    client.release();
  }
}

async function lane(): Promise<never> {
  for (;;) if (!(await takeOne())) await sleep(EMPTY_MS);
}

process.on('disconnect', () => process.exit());
process.send?.('polling');
await Promise.all(Array.from({ length: LANES }, lane));
