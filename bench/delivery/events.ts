import { Client } from '@temporalio/client';
import { medianFigure, type Figure } from '../figures.ts';
import type { Scenario } from '../scenario.ts';
import { freshMerchant, hooksOf, WEBHOOK } from '../stand.ts';
import { connectTo, temporalOf } from '../temporal.ts';
import { costOf, FATES, historyCost, requestsOf, type Cost, type FatePlace } from './fates.ts';
import { withBothSides, type Sides } from './sides.ts';

const ROUNDS = 2;

/** History events, bytes and requests to Temporal of a delivery, for each fate, beside the bare engine's. */
export const events: Scenario = async ({ log }) =>
  await withBothSides(
    undefined,
    async (sides) => {
      const { environment } = sides.server;
      // What only looks on is not counted.
      const connection = await connectTo(environment);
      sides.atEnd(() => connection.close());
      const temporal = new Client({ connection, namespace: temporalOf(environment).namespace });
      const place = placeOf(sides, temporal);
      const costs = new Map<string, Cost[]>();
      for (let round = 1; round <= ROUNDS; round++) {
        for (const name of ['floor', ...FATES.map((fate) => fate.name)]) {
          const fate = FATES.find((each) => each.name === name);
          const cost = fate
            ? await costOf(place, fate, freshMerchant('events'))
            : await floorCost(sides, place, `floor${round}`);
          log(`${name}: ${JSON.stringify(cost.requests)}`);
          costs.set(name, [...(costs.get(name) ?? []), cost]);
        }
      }
      return [...costs].flatMap(([name, rounds]) => figuresOf(name, rounds, costs.get('floor') ?? []));
    },
    { counted: true },
  );

function figuresOf(name: string, rounds: readonly Cost[], floor: readonly Cost[]): Figure[] {
  const measures = {
    events: (cost: Cost) => cost.events,
    bytes: (cost: Cost) => cost.bytes,
    requests: ({ requests }: Cost) => Object.values(requests).reduce((sum, count) => sum + count, 0),
  };
  return Object.entries(measures).flatMap(([measure, valueOf]) => {
    const values = rounds.map(valueOf);
    const floors = floor.map(valueOf);
    const ratios = values.map((value, index) => value / (floors[index] ?? Number.NaN));
    const figure = medianFigure(`${name}: ${measure}`, '', values);
    return name === 'floor'
      ? figure
      : [figure, medianFigure(`${name}: ${measure}, product ÷ floor`, '×', ratios)];
  });
}

function placeOf({ proxy, temporal: counted, receiver }: Sides, temporal: Client): FatePlace {
  if (proxy === undefined) throw new Error('nothing counts the requests');
  return {
    proxy,
    counted: (policy) => hooksOf(counted, policy),
    hooks: hooksOf(temporal),
    temporal,
    async endpoint(merchantId, answers) {
      await receiver.answer(merchantId, answers);
      return receiver.url(merchantId);
    },
  };
}

async function floorCost(
  { bare, receiver }: Sides,
  { proxy, temporal }: FatePlace,
  id: string,
): Promise<Cost> {
  proxy.reset();
  await bare.submit({
    merchants: [id],
    url: receiver.url(id),
    prefix: 'webhook',
    count: 1,
    pace: { atATime: 1 },
    body: WEBHOOK.body,
  });
  const workflowId = `bare:${id}:webhook0`;
  await temporal.workflow.getHandle(workflowId).result();
  return { ...(await historyCost(temporal, workflowId)), requests: requestsOf(proxy) };
}
