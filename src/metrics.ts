import type { MetricMeter } from '@temporalio/common';
import type { InjectedSinks } from '@temporalio/worker';
import type { Census } from './activities/census.ts';
import { deliveryIds } from './contract.ts';
import type { MetricSinks } from './workflows/metric-sinks.ts';

/** How the product's metrics are labelled. */
export interface MetricsOptions {
  readonly namespace: string;
  /** Whether deliveries and attempts are counted by merchant: one series more for each. False by default. */
  readonly byMerchant?: boolean;
}

/**
 * Upper bounds of the histograms' buckets, by the name of the metric without its unit: seconds, and entries. The delivery
 * latency has the steps of both ladders in it.
 */
export const HISTOGRAM_BUCKETS: Readonly<Record<string, number[]>> = {
  hookladder_delivery_latency: [
    0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 21_600, 86_400, 259_200,
  ],
  hookladder_attempt_duration: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 25],
  hookladder_report_batch_size: [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000],
};

/** What activities and the reporter measure. */
export interface Metrics {
  /** For the worker: what workflows measure. */
  readonly sinks: InjectedSinks<MetricSinks>;
  /** The merchant had no free place: the attempt comes again at a reserved time. */
  deferred(): void;
  /** R6. */
  ownFault(): void;
  /** A held delivery was woken. */
  released(purpose: 'drain' | 'trial'): void;
  /** R8. */
  egressSuspected(suspected: boolean): void;
  /** A worker has told a merchant's entity so many things in one signal. */
  reported(entries: number): void;
  /** It could not; it tries again. */
  reportFailed(): void;
  /** What is known of all deliveries and merchants together; `undefined` if it is not known any more. */
  readonly census: (census: Census | undefined) => void;
}

/** The product's metrics on the SDK's meter, so that both come out of one endpoint. */
export function createMetrics(root: MetricMeter, { namespace, byMerchant = false }: MetricsOptions): Metrics {
  const meter = root.withTags({ namespace });
  const counter = (name: string, help: string) => meter.createCounter(`hookladder_${name}`, '', help);
  const histogram = (name: string, unit: string, help: string) =>
    meter.createHistogram(`hookladder_${name}`, 'float', unit, help);
  const gauge = (name: string, help: string) => meter.createGauge(`hookladder_${name}`, 'float', '', help);

  const accepted = counter(
    'deliveries_accepted',
    'Deliveries whose workflow has begun, redeliveries among them',
  );
  const ended = counter('deliveries_ended', 'Deliveries that have ended, by their end');
  const latency = histogram('delivery_latency', 'seconds', 'From acceptance to delivered');
  const attempts = counter(
    'attempts',
    'Attempts that have a verdict, by its kind; where there was no answer, by its code',
  );
  const duration = histogram('attempt_duration', 'seconds', 'Of one HTTP exchange, up to its verdict');
  const deferred = counter(
    'attempts_deferred',
    'Attempts put off because the merchant had too many under way',
  );
  const ownFaults = counter('own_faults', 'Faults of our own before a POST, each try counted');
  const transitions = counter('breaker_transitions', 'Changes of merchants and their breakers, by kind');
  const releases = counter('releases', 'Held deliveries that were woken, to drain or to make a trial');
  const batch = histogram('report_batch_size', '', 'Samples, holds and the like in one signal to a merchant');
  const reportsFailed = counter(
    'reports_failed',
    'Signals to merchants that could not be sent and are sent again',
  );
  const open = gauge(
    'open_deliveries',
    'Deliveries that have not ended, by the wait that they published last',
  );
  const breakers = gauge('breakers', 'Merchants whose breaker is not closed, or that are paused');
  const oldest = gauge('oldest_undelivered_age_seconds', 'Age of the oldest delivery that has not ended');
  const egress = gauge('egress_suspected', 'Whether this process suspects its own way out: 1 if it does');
  const taken = gauge('census_timestamp_seconds', 'When open deliveries and breakers were counted last');

  // Shown from the start, so that the first one is seen as an increase.
  for (const money of [true, false]) {
    accepted.add(0, { money });
    for (const [state, reason] of ENDS) ended.add(0, { state, reason, money });
  }
  for (const event of ['opened', 'trial-passed', 'trial-failed', 'reset', 'recovered'])
    transitions.add(0, { event });
  for (const purpose of ['drain', 'trial']) releases.add(0, { purpose });
  for (const single of [deferred, ownFaults, reportsFailed]) single.add(0);

  egress.set(0);

  const merchant = (workflowId: string) =>
    byMerchant ? { merchant: deliveryIds(workflowId).merchantId } : {};
  const set = ({ states, breakers: notClosed, oldestMs, at }: Census): void => {
    for (const [state, count] of Object.entries(states)) open.set(count, { state });
    for (const [state, count] of Object.entries(notClosed)) breakers.set(count, { state });
    for (const [money, ageMs] of Object.entries(oldestMs)) oldest.set(ageMs / 1_000, { money });
    taken.set(at / 1_000);
  };
  let last: Census | undefined;

  return {
    sinks: {
      metrics: {
        accepted: {
          fn: ({ workflowId }, money) => accepted.add(1, { money, ...merchant(workflowId) }),
          callDuringReplay: false,
        },
        attempted: {
          fn({ workflowId }, verdict, code, durationMs) {
            attempts.add(1, { verdict, code, ...merchant(workflowId) });
            duration.record(durationMs / 1_000, { verdict });
          },
          callDuringReplay: false,
        },
        ended: {
          fn({ workflowId }, state, reason, money, latencyMs) {
            ended.add(1, { state, reason, money, ...merchant(workflowId) });
            if (state === 'delivered') latency.record(Math.max(0, latencyMs) / 1_000, { money });
          },
          callDuringReplay: false,
        },
        transition: { fn: (_, event) => transitions.add(1, { event }), callDuringReplay: false },
      },
    },
    deferred: () => deferred.add(1),
    ownFault: () => ownFaults.add(1),
    released: (purpose) => releases.add(1, { purpose }),
    egressSuspected: (suspected) => egress.set(suspected ? 1 : 0),
    reported: (entries) => batch.record(entries),
    reportFailed: () => reportsFailed.add(1),
    census: (census) => {
      if (census !== undefined) set(census);
      // A gauge cannot be taken back: no number says that it is not known here, and `max` passes over it.
      else if (last !== undefined) set(unknown(last));
      last = census;
    },
  };
}

const ENDS = [
  ['delivered', ''],
  ['cancelled', ''],
  ['failed', 'rejected'],
  ['failed', 'fast-ladder-exhausted'],
  ['failed', 'slow-ladder-exhausted'],
  ['failed', 'slow-ladder-ceiling'],
  ['failed', 'expired'],
] as const;

function nothing<K extends string>(counts: Readonly<Record<K, number>>): Record<K, number> {
  return Object.fromEntries(Object.keys(counts).map((name) => [name, Number.NaN])) as Record<K, number>;
}

function unknown({ states, breakers, oldestMs }: Census): Census {
  return {
    states: nothing(states),
    breakers: nothing(breakers),
    oldestMs: nothing(oldestMs),
    at: Number.NaN,
  };
}
