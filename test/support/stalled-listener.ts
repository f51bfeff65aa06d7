import { connect, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { once } from 'node:events';

/** A port that accepts nobody for now: its queue is full and its thread stands still. */
export interface StalledListener {
  readonly port: number;
  /** Accepts from now on, and answers each request with 200. */
  resume(): void;
  close(): Promise<void>;
}

const listener = `
  const { parentPort, workerData } = require('node:worker_threads');
  const server = require('node:net').createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n'));
  });
  server.listen({ host: workerData.host, port: workerData.port, backlog: 1 }, () => {
    parentPort.postMessage(server.address().port);
    Atomics.wait(workerData.gate, 0, 0);
  });
`;
/** More than the shortest queue holds. */
const FILLERS = 16;

/** Starts a listener that stands still, and waits until new connections hang. */
export async function startStalledListener(host: string, port = 0): Promise<StalledListener> {
  const gate = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(listener, { eval: true, workerData: { host, port, gate } });
  const [taken] = (await once(worker, 'message')) as [number];
  const fillers = Array.from({ length: FILLERS }, () =>
    connect({ host, port: taken }).on('error', () => undefined),
  );
  await untilSomeHang(fillers);
  const resume = () => {
    Atomics.store(gate, 0, 1);
    Atomics.notify(gate, 0);
  };
  return {
    port: taken,
    resume,
    async close() {
      for (const socket of fillers) socket.destroy();
      resume();
      await worker.terminate();
    },
  };
}

/** The queue is full once nobody has got in for a while although some are still waiting. */
async function untilSomeHang(fillers: readonly Socket[]): Promise<void> {
  let before = -1;
  for (;;) {
    const inside = fillers.filter((socket) => !socket.connecting).length;
    if (inside === before && inside > 0) break;
    before = inside;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  if (before === fillers.length) throw new Error('the queue of this system does not fill up');
}
