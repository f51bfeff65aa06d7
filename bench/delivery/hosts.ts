import { readdir, readlink } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { AddressGuard } from '../../src/http/address-guard.ts';
import { Sender } from '../../src/http/sender.ts';
import { startHostsProcess, type HostsProcess } from '../child.ts';
import { largest, percentile, type Figure } from '../figures.ts';
import { manyAtATime } from '../pace.ts';
import type { Scenario } from '../scenario.ts';

/** As many attempts as one worker makes at once by default. */
const AT_A_TIME = 100;
/** Idle connections that a worker keeps. */
const KEPT = 256;
const SAMPLED_EVERY_MS = 50;
const BODY = Buffer.from(JSON.stringify({ payment_id: 'pay_1', status: 'paid', note: 'n'.repeat(800) }));

/** Posts to thousands of HTTPS hosts by name, in no order: what is kept of them in sockets and memory. */
export const hosts: Scenario = async ({ quick, log }) => {
  const [hostCount, posts] = quick ? [200, 1_000] : [5_000, 20_000];
  const them = await startHostsProcess();
  const sender = new Sender({
    guard: new AddressGuard({ allow: ['127.0.0.0/8'] }),
    trustedCertificates: [them.authority],
    nameServers: [them.nameServer],
  });
  try {
    log(`${posts} posts to ${hostCount} hosts, ${AT_A_TIME} at a time`);
    return await measure(sender, them, hostCount, posts);
  } finally {
    sender.close();
    await them.stop();
  }
};

async function measure(
  sender: Sender,
  them: HostsProcess,
  hostCount: number,
  posts: number,
): Promise<Figure[]> {
  const collect = collector();
  const before = await openSockets();
  const sockets = watchSockets();
  const durations: number[] = [];
  let failed = 0;
  const post = async (index: number): Promise<void> => {
    // A step that shares no factor with the count visits all hosts before any comes again.
    const host = (index * 1_999) % hostCount;
    const { kind, durationMs } = await sender.post({
      url: `https://h${host}.hosts.test:${them.port}/webhooks`,
      headers: { 'Content-Type': 'application/json' },
      body: BODY,
      timeoutMs: 10_000,
    });
    durations.push(durationMs);
    if (kind !== 'delivered') failed += 1;
  };
  const begunAt = performance.now();
  const first = posts / 10;
  await manyAtATime(AT_A_TIME, first, post);
  const heapAtFirst = await collect();
  const residentAtFirst = process.memoryUsage.rss();
  await manyAtATime(AT_A_TIME, posts - first, async (index) => await post(first + index));
  const seconds = (performance.now() - begunAt) / 1_000;
  const heapAtEnd = await collect();
  const residentAtEnd = process.memoryUsage.rss();
  const sampled = await sockets.stop();
  sender.close();
  await sleep(1_000);
  const left = await openSockets();
  const { connections, requests } = await them.counts();
  // A lookup needs a socket of its own for a moment.
  const most = AT_A_TIME + KEPT + AT_A_TIME;
  return [
    { what: 'posts not delivered', value: failed, unit: '', goal: { exactly: 0 } },
    { what: 'requests seen − posts', value: requests - posts, unit: '', goal: { exactly: 0 } },
    { what: 'posts', value: posts / seconds, unit: '/s' },
    {
      what: 'post p95',
      value: percentile(durations, 0.95),
      unit: 'ms',
    },
    { what: 'connections opened', value: connections, unit: '' },
    { what: 'sockets at once', value: largest(sampled) - before, unit: '', goal: { atMost: most } },
    { what: 'sockets 1 s after the end', value: left - before, unit: '', goal: { exactly: 0 } },
    { what: `heap after ${first} posts`, value: heapAtFirst / 1e6, unit: 'MB' },
    {
      what: `heap after ${posts} posts`,
      value: heapAtEnd / 1e6,
      unit: 'MB',
      goal: { atMost: Math.ceil((heapAtFirst * 1.1) / 1e6) },
    },
    { what: `resident memory after ${first} posts`, value: residentAtFirst / 1e6, unit: 'MB' },
    { what: `resident memory after ${posts} posts`, value: residentAtEnd / 1e6, unit: 'MB' },
  ];
}

/** Collects garbage and tells the bytes of the heap that are still in use. */
function collector(): () => Promise<number> {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  return async () => {
    for (let round = 0; round < 3; round++) {
      gc();
      await sleep(50);
    }
    return process.memoryUsage().heapUsed;
  };
}

function watchSockets(): { stop(): Promise<number[]> } {
  const sampled: number[] = [];
  const end = new AbortController();
  const watching = (async () => {
    while (!end.signal.aborted) {
      sampled.push(await openSockets());
      await sleep(SAMPLED_EVERY_MS);
    }
  })();
  return {
    async stop() {
      end.abort();
      await watching;
      return sampled;
    },
  };
}

/** @throws where there is no `/proc`. */
async function openSockets(): Promise<number> {
  const files = await readdir('/proc/self/fd');
  const links = await Promise.all(files.map((file) => readlink(`/proc/self/fd/${file}`).catch(() => '')));
  return links.filter((link) => link.startsWith('socket:')).length;
}
