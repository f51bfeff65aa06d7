import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isAsleepQuery } from '../bare/messages.ts';
import { residentMiBOf } from '../cpu.ts';
import { medianFigure, type Figure, type Goal } from '../figures.ts';
import { manyAtATime, until } from '../pace.ts';
import type { HandedOver } from '../processes/load.ts';
import type { Scenario } from '../scenario.ts';
import { isForeignServer } from '../temporal.ts';
import { inTurn } from './rounds.ts';
import { LOAD, merchantsAt, withBothSides, type Side, type Sides } from './sides.ts';

const MERCHANTS = 100;
const AT_A_TIME = 20;
const HEAP_MIB = 512;
const ASKED = 200;
const ASKED_AT_A_TIME = 10;
const ASLEEP_WITHIN_MS = 60 * 60_000;
const PATH = 'sleepers';
/** The first step of the slow ladder; the bare engine sleeps as long. */
const SLEEP_MS = 15 * 60_000;

interface Result {
  readonly residentMiB: number;
  /** Missing if the server is not ours. */
  readonly storeMiB?: number;
  readonly answered: number;
  readonly seconds: number;
}

/** Money events whose first attempt was rejected, asleep for 15 minutes; beside bare workflows that sleep. */
export const sleepers: Scenario = async (context) => {
  const count = context.quick ? 300 : 10_000;
  const round = (name: Side['name']) => async (number: number) => {
    const result = await withBothSides(
      undefined,
      async (sides) => await oneRound(sides, sides[name], count),
      { onDisk: true, nodeOptions: [`--max-old-space-size=${HEAP_MIB}`] },
    );
    const { residentMiB, storeMiB, answered, seconds } = result;
    const store = storeMiB === undefined ? '' : `, store ${storeMiB.toFixed(0)} MiB`;
    context.log(
      `${name} ${number}: ${residentMiB.toFixed(0)} MiB${store}, ${answered} answers in ${seconds.toFixed(1)} s`,
    );
    return result;
  };
  const { bare, product } = await inTurn(context.quick ? 1 : 2, round('bare'), round('product'));
  return figuresOf(`${count} asleep`, bare, product);
};

function figuresOf(what: string, bare: readonly Result[], product: readonly Result[]): Figure[] {
  const compared = (name: string, unit: string, valueOf: (result: Result) => number, goal?: Goal) => {
    const values = { bare: bare.map(valueOf), product: product.map(valueOf) };
    const ratios = values.product.map((value, index) => value / (values.bare[index] ?? Number.NaN));
    return [
      medianFigure(`${what}: product, ${name}`, unit, values.product, goal),
      medianFigure(`${what}: floor, ${name}`, unit, values.bare),
      medianFigure(`${what}: product ÷ floor, ${name}`, '×', ratios),
    ];
  };
  return [
    ...compared(`worker's memory, heap limit ${HEAP_MIB} MB`, 'MiB', ({ residentMiB }) => residentMiB),
    ...(isForeignServer() ? [] : compared("server's store", 'MiB', ({ storeMiB }) => storeMiB ?? Number.NaN)),
    ...compared(`${ASKED} status calls after a restart of the worker`, 's', ({ seconds }) => seconds, {
      atMost: 10,
    }),
    medianFigure(
      `${what}: product, status calls answered`,
      '',
      product.map(({ answered }) => answered),
      { exactly: ASKED },
    ),
  ];
}

async function oneRound(sides: Sides, side: Side, count: number): Promise<Result> {
  const merchants = await merchantsAt(sides, PATH, MERCHANTS);
  await sides.receiver.answer(PATH, 404);
  const submitted = await side.submit({
    merchants,
    url: sides.receiver.url(PATH),
    prefix: 's',
    count,
    pace: { atATime: AT_A_TIME },
    body: LOAD.body.replace('pending', 'paid'),
    sleepMs: SLEEP_MS,
  });
  await untilAsleep(sides, side, count);
  const residentMiB = await residentMiBOf(side.worker().pid);
  const storeMiB = await storeMiBOf(sides);
  await side.restart();
  const chosen = submitted.filter((_, index) => index % Math.floor(count / ASKED) === 0).slice(0, ASKED);
  const startedAt = performance.now();
  let answered = 0;
  await manyAtATime(ASKED_AT_A_TIME, chosen.length, async (index) => {
    const webhook = chosen[index];
    if (webhook !== undefined && (await isAsleep(sides, side, webhook))) answered += 1;
  });
  const seconds = (performance.now() - startedAt) / 1_000;
  return { residentMiB, answered, seconds, ...(storeMiB === undefined ? {} : { storeMiB }) };
}

/** By visibility, which lags a little: the product says so by a search attribute, the bare engine has only its arrivals. */
async function untilAsleep({ temporal, receiver }: Sides, { name }: Side, count: number): Promise<void> {
  await until(
    'all are asleep',
    async () => {
      if (name === 'bare') return (await receiver.count(PATH)) >= count;
      return (await temporal.workflow.count(`WebhookState = 'waiting-slow'`)).count >= count;
    },
    { withinMs: ASLEEP_WITHIN_MS, everyMs: 1_000 },
  );
}

async function isAsleep(
  { hooks, temporal }: Sides,
  { name }: Side,
  { merchantId, webhookId }: HandedOver,
): Promise<boolean> {
  if (name === 'product') {
    const { state } = await hooks().delivery(merchantId, webhookId).status();
    return state === 'waiting-slow';
  }
  return await temporal.workflow.getHandle(`bare:${merchantId}:${webhookId}`).query(isAsleepQuery);
}

async function storeMiBOf({ folder, server }: Sides): Promise<number | undefined> {
  if (server.pid === undefined) return undefined;
  const sizes = await Promise.all(
    ['temporal.db', 'temporal.db-wal'].map(async (name) => {
      const file = await stat(join(folder, name)).catch(() => undefined);
      return file?.size ?? 0;
    }),
  );
  return sizes.reduce((sum, size) => sum + size, 0) / 1_024 ** 2;
}
