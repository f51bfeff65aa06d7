import { windowAt } from '../policy/circuit.ts';
import type { Endpoint, GateView } from '../policy/gate.ts';
import type { Policy } from '../policy/policy.ts';
import type { MerchantState } from './merchant-state.ts';
import type { EndpointView, MerchantStatus } from './messages.ts';

/** A merchant's entity as people and tools see it. */
export function merchantStatus(
  merchantId: string,
  state: MerchantState,
  policy: Policy,
  now: number,
): MerchantStatus {
  const { circuit, transitions } = state.snapshot();
  const window = circuit.state === 'closed' ? windowAt(policy.breaker, circuit.window, now) : [];
  return {
    merchantId,
    summary: merchantInWords(state.view(), state.held),
    gate: withoutSecrets(state.view()),
    samples: window.length,
    failed: window.filter(({ failed }) => failed).length,
    held: state.held,
    drainPerSecond: policy.drain.perSecond,
    transitions,
  };
}

/** What the gate is told, for people. */
export function withoutSecrets({ endpoint, ...gate }: GateView): MerchantStatus['gate'] {
  return { ...gate, ...(endpoint && { endpoint: endpointView(endpoint) }) };
}

function endpointView({ url, headers, next }: Endpoint): EndpointView {
  return { url, headers: headers?.names ?? [], ...(next && { promoteAt: next.promoteAt }) };
}

/** How the merchant stands, for a list of all: its circuit, or that it is paused. */
export function breakerState({ paused, circuit }: GateView): string {
  return paused === undefined ? circuit.state : 'paused';
}

/** How a merchant stands, in a sentence for the Temporal UI. */
export function merchantInWords(view: GateView, held: number): string {
  const waiting = held === 0 ? 'nothing held' : `${held} held`;
  if (view.paused !== undefined) {
    const { by = 'an operator', why = 'no reason given', since } = view.paused;
    return `paused by ${by} since ${time(since)} (${why}); breaker ${view.circuit.state}; ${waiting}`;
  }
  if (view.endpoint === undefined) return `no address; ${waiting}`;
  const { next } = view.endpoint;
  const url =
    next === undefined
      ? view.endpoint.url
      : `${view.endpoint.url}; two secrets until ${time(next.promoteAt)}`;
  switch (view.circuit.state) {
    case 'open':
      return `breaker open until ${time(view.circuit.until)}, pause ${view.circuit.pause} in a row; ${waiting}; ${url}`;
    case 'half-open': {
      const trial =
        view.circuit.permit === undefined ? 'a trial is due' : `trial ${view.circuit.permit} is under way`;
      return `breaker half-open: ${trial}; ${waiting}; ${url}`;
    }
    case 'closed':
      if (view.drainPausedUntil !== undefined) {
        return `draining, slowed down by a 429 until ${time(view.drainPausedUntil)}; ${waiting}; ${url}`;
      }
      return view.draining ? `draining; ${waiting}; ${url}` : `breaker closed; ${url}`;
  }
}

function time(unixMs: number): string {
  return new Date(unixMs).toISOString();
}
