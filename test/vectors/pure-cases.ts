import { isMoneyDelivery } from '../../src/contract.ts';
import { signatureHeaders } from '../../src/http/signatures.ts';
import {
  concludeTrial,
  grant,
  isTrialDue,
  newCircuit,
  reset,
  sample,
  tick,
  type Circuit,
} from '../../src/policy/circuit.ts';
import { defaultPolicy } from '../../src/policy/policy.ts';
import type { BreakerCase, MoneyCase, SignatureCase } from './cases.ts';
import { differences } from './outcome.ts';

/** R30: the classification that a delivery makes at its start. */
export function checkMoney({ type, status, money }: MoneyCase): string[] {
  const got = isMoneyDelivery({ type, body: JSON.stringify({ status }) });
  return differences({ money }, { money: got });
}

/** R61, R62: the headers that an attempt sends. */
export function checkSignature(vector: SignatureCase): string[] {
  const { id, timestamp, secret, bodyBase64, xWebhookSignature, webhookSignature } = vector;
  const body = Buffer.from(bodyBase64, 'base64');
  const headers = signatureHeaders({ webhookId: id, timestamp: Number(timestamp), body }, { secret });
  return differences(
    {
      'X-Webhook-Id': id,
      'X-Webhook-Timestamp': timestamp,
      'X-Webhook-Signature': xWebhookSignature,
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': webhookSignature,
    },
    headers,
  );
}

type BreakerStep = BreakerCase['steps'][number];

/** R40–R45, R49: the circuit after each step. */
export function checkBreaker({ steps }: BreakerCase): string[] {
  const problems: string[] = [];
  let circuit: Circuit = newCircuit();
  for (const [index, step] of steps.entries()) {
    circuit = tick(circuit, step.t);
    const where = `step ${index + 1} (${step.do} at ${step.t} ms) `;
    if (step.do === 'trial' && !isTrialDue(circuit)) {
      problems.push(`${where}state: expected a trial to be due, got ${circuit.state}`);
    }
    circuit = take(circuit, step);
    const got = { state: circuit.state, ...(circuit.state === 'open' ? { openUntil: circuit.until } : {}) };
    const { state, openUntil } = step;
    problems.push(...differences({ state, ...(openUntil === undefined ? {} : { openUntil }) }, got, where));
  }
  return problems;
}

function take(circuit: Circuit, step: BreakerStep): Circuit {
  const numbers = defaultPolicy.breaker;
  switch (step.do) {
    case 'sample':
      return sample(numbers, circuit, { at: step.t, failed: step.failed }, circuit.epoch, step.t);
    case 'trial': {
      if (!isTrialDue(circuit)) return circuit;
      const permit = 1;
      const granted = grant(numbers, circuit, 'trial', permit, step.t);
      return concludeTrial(numbers, granted, permit, step.failed, step.t);
    }
    case 'tick':
      return circuit;
    case 'reset':
      return reset(circuit);
  }
}
