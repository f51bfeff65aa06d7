/** A one-line fault that a test of its rule must notice. */
export interface Mutant {
  /** SPEC's id of the rule that the fault breaks. */
  readonly rule: string;
  readonly file: string;
  /** Stands exactly once in the file. */
  readonly find: string;
  readonly replace: string;
  /** Where the tests of the rule are that notice it. */
  readonly tests: string;
}

const verdicts = 'src/policy/verdicts.ts';
const ladders = 'src/policy/ladders.ts';
const delivery = 'src/workflows/delivery.ts';
const attempt = 'src/activities/attempt.ts';
const ladderTests = 'test/policy/ladders.test.ts';
const deliveryTests = 'test/workflows/delivery.test.ts';
const killTests = 'test/reliability/kill.test.ts';

const circuit = 'src/policy/circuit.ts';
const gate = 'src/policy/gate.ts';
const merchantState = 'src/workflows/merchant-state.ts';
const circuitTests = 'test/policy/circuit.test.ts';
const gateTests = 'test/policy/gate.test.ts';
const merchantTests = 'test/workflows/merchant-state.test.ts';

const guard = 'src/http/address-guard.ts';
const guardTests = 'test/http/address-guard.test.ts';
const customHeaders = 'src/custom-headers.ts';
const customHeaderTests = 'test/client/custom-headers.test.ts';
const rotationTests = 'test/workflows/rotation.test.ts';

const egress = 'src/policy/egress.ts';
const egressTests = 'test/policy/egress.test.ts';

const kitTests = 'test/receiver/adapters.test.ts';

export const mutants: readonly Mutant[] = [
  {
    rule: 'R1',
    file: verdicts,
    find: 'status >= 200 && status < 300',
    replace: 'status === 200',
    tests: ladderTests,
  },
  {
    rule: 'R2',
    file: verdicts,
    find: "if (status === 429) return 'rate-limited';",
    replace: '',
    tests: ladderTests,
  },
  {
    rule: 'R3',
    file: ladders,
    find: "? climbSlow(policy, ladders, now) : { ladders, decision: failed('rejected') }",
    replace: '? climbSlow(policy, ladders, now) : climbSlow(policy, ladders, now)',
    tests: ladderTests,
  },
  {
    rule: 'R4',
    file: verdicts,
    find: "return money ? 'rejection' : 'fast-failure';",
    replace: "return 'rejection';",
    tests: ladderTests,
  },
  {
    rule: 'R5',
    file: 'src/http/sender.ts',
    find: "if (!exchange.signal.aborted) return verdict('network'",
    replace: "if (phase !== undefined) return verdict('network'",
    tests: 'test/http/sender.test.ts',
  },
  {
    rule: 'R6',
    file: delivery,
    find: "error.retryState === 'TIMEOUT'",
    replace: 'startedAt < 0',
    tests: killTests,
  },
  {
    rule: 'R7',
    file: delivery,
    find: "nonRetryableErrorTypes: ['TemporalTimeout:StartToClose'],",
    replace: '',
    tests: killTests,
  },
  {
    rule: 'R10',
    file: ladders,
    find: '2 ** (ladders.fastFailures - 1)',
    replace: '2 ** ladders.fastFailures',
    tests: ladderTests,
  },
  {
    rule: 'R11',
    file: delivery,
    find: 'await this.untilReleased();',
    replace:
      'await this.untilReleased(); this.ladders = { ...this.ladders, fastFailures: this.ladders.fastFailures + 1 };',
    tests: deliveryTests,
  },
  {
    rule: 'R12',
    file: ladders,
    find: 'pauseMs: Math.max(step, asked)',
    replace: 'pauseMs: asked || step',
    tests: ladderTests,
  },
  {
    rule: 'R13',
    file: ladders,
    find: 'pauseMs: Math.max(step, asked)',
    replace: 'pauseMs: Math.max(step, asked) * (1 + Math.random() / 10)',
    tests: ladderTests,
  },
  {
    rule: 'R20',
    file: 'src/policy/policy.ts',
    find: '12 * HOUR, 24 * HOUR]',
    replace: '12 * HOUR, 23 * HOUR]',
    tests: ladderTests,
  },
  {
    rule: 'R21',
    file: ladders,
    find: 'before.ceilingAt ?? now + policy.slow.ceilingMs',
    replace: 'now + policy.slow.ceilingMs',
    tests: ladderTests,
  },
  {
    rule: 'R22',
    file: delivery,
    find: 'result.verdict, this.money, now)',
    replace: 'result.verdict, this.money, this.acceptedAt)',
    tests: 'test/workflows/time-skipping.test.ts',
  },
  {
    rule: 'R23',
    file: ladders,
    find: 'fastFailures: before.fastFailures + 1',
    replace: 'fastFailures: before.fastFailures + before.slowSteps + 1',
    tests: ladderTests,
  },
  {
    rule: 'R24',
    file: ladders,
    find: 'acceptedAt + policy.maxAgeMs',
    replace: 'acceptedAt + 2 * policy.maxAgeMs',
    tests: ladderTests,
  },
  {
    rule: 'R30',
    file: 'src/policy/events.ts',
    find: "'settled', ",
    replace: '',
    tests: 'test/vectors/vectors.test.ts',
  },
  {
    rule: 'R50',
    file: 'src/policy/gate.ts',
    find: "return { pass: false, reason: 'no-endpoint' };",
    replace: "return { pass: false, reason: 'draining' };",
    tests: 'test/policy/gate.test.ts',
  },
  {
    rule: 'R60',
    file: attempt,
    find: "Buffer.from(request.body, 'utf8')",
    replace: "Buffer.from(request.body, 'latin1')",
    tests: deliveryTests,
  },
  {
    rule: 'R61',
    file: 'src/http/signatures.ts',
    find: '.update(`${timestamp}.`)',
    replace: '.update(`${timestamp}`)',
    tests: 'test/http/signatures.test.ts',
  },
  {
    rule: 'R62',
    file: 'src/http/signatures.ts',
    find: "createSecretKey(secret.slice(6), 'base64')",
    replace: "createSecretKey(secret.slice(6), 'utf8')",
    tests: 'test/http/signatures.test.ts',
  },
  {
    rule: 'R64',
    file: attempt,
    find: 'const verdict = await post(merchantId, answer.endpoint',
    replace:
      'await post(merchantId, answer.endpoint, secrets, webhookId, request); const verdict = await post(merchantId, answer.endpoint',
    tests: killTests,
  },
  {
    rule: 'R70',
    file: 'src/client.ts',
    find: 'return known.body === input.body && known.type === input.type;',
    replace: 'return known.type === input.type;',
    tests: 'test/client/deliver.test.ts',
  },
  {
    rule: 'R71',
    file: 'src/contract.ts',
    find: 'MAX_BODY_BYTES = 256 * 1024',
    replace: 'MAX_BODY_BYTES = 257 * 1024',
    tests: 'test/client/deliver.test.ts',
  },
  { rule: 'R80', file: delivery, find: 'details: [this.status()],', replace: '', tests: deliveryTests },
  {
    rule: 'R82',
    file: delivery,
    find: 'consideredCancelled && !delivered',
    replace: 'consideredCancelled',
    tests: deliveryTests,
  },
  {
    rule: 'R83',
    file: ladders,
    find: "if (meaning === 'rejection' && !money)",
    replace: "if (meaning === 'rejection')",
    tests: ladderTests,
  },
  {
    rule: 'R90',
    file: delivery,
    find: 'nextAttemptAt: rfc3339(this.pause.until) }',
    replace: 'nextAttemptAt: rfc3339(this.acceptedAt) }',
    tests: deliveryTests,
  },
  { rule: 'R40', file: circuit, find: ' || epoch !== circuit.epoch', replace: '', tests: circuitTests },
  {
    rule: 'R41',
    file: circuit,
    find: 'failed / window.length >= numbers.failedShare',
    replace: 'failed / window.length > numbers.failedShare',
    tests: circuitTests,
  },
  { rule: 'R42', file: circuit, find: '2 ** (pause - 1)', replace: '2 ** pause', tests: circuitTests },
  {
    rule: 'R43',
    file: gate,
    find: "if (circuit.state === 'open')",
    replace: "if (circuit.state === 'open' && call.held)",
    tests: gateTests,
  },
  {
    rule: 'R44',
    file: 'src/policy/waiting-room.ts',
    find: 'place.fastFailures < best.fastFailures',
    replace: 'place.fastFailures > best.fastFailures',
    tests: 'test/policy/waiting-room.test.ts',
  },
  {
    rule: 'R45',
    file: circuit,
    find: 'circuit.pause + 1, now)',
    replace: 'circuit.pause, now)',
    tests: circuitTests,
  },
  {
    rule: 'R46',
    file: merchantState,
    find: 'Math.max(askedMs, this.policy.drain.slowDownMs)',
    replace: 'this.policy.drain.slowDownMs',
    tests: merchantTests,
  },
  {
    rule: 'R47',
    file: delivery,
    find: 'if (hold.asks > 0)',
    replace: 'if (hold.asks > 1)',
    tests: 'test/workflows/time-skipping.test.ts',
  },
  {
    rule: 'R48',
    file: gate,
    find: 'circuit.permit === call.permit',
    replace: 'call.permit !== undefined',
    tests: gateTests,
  },
  {
    rule: 'R49',
    file: merchantState,
    find: 'circuit: breaker.reset(this.known.circuit)',
    replace: 'circuit: this.known.circuit',
    tests: merchantTests,
  },
  {
    rule: 'R51',
    file: 'src/policy/waiting-room.ts',
    find: 'room.slice(0, fitting)',
    replace: 'room.slice(-fitting)',
    tests: 'test/policy/waiting-room.test.ts',
  },
  {
    rule: 'R52',
    file: merchantState,
    find: '...(view.endpoint === undefined ? {} : { endpoint: view.endpoint, lastUrl: view.endpoint.url }),',
    replace: '',
    tests: merchantTests,
  },
  {
    rule: 'R53',
    file: gate,
    find: "if (view?.paused !== undefined) return { pass: false, reason: 'paused' };",
    replace: '',
    tests: gateTests,
  },
  {
    rule: 'R2',
    file: 'src/http/tls.ts',
    find: 'rejectUnauthorized: true',
    replace: 'rejectUnauthorized: false',
    tests: 'test/http/tls.test.ts',
  },
  {
    rule: 'R3',
    file: 'src/http/connector.ts',
    find: 'addresses.filter((address) => guard.refusal(address) === undefined)',
    replace: '[...addresses]',
    tests: 'test/http/names.test.ts',
  },
  {
    rule: 'R4',
    file: 'src/http/connections.ts',
    find: 'this.beforeRequest();',
    replace: '',
    tests: 'test/http/sender.test.ts',
  },
  {
    rule: 'R6',
    file: 'src/http/egress-proxy.ts',
    find: 'if (targetUnreachable.has(statusCode))',
    replace: 'if (statusCode >= 300)',
    tests: 'test/http/egress-proxy.test.ts',
  },
  {
    rule: 'R64',
    file: 'src/http/sender.ts',
    find: 'if (!(kept !== undefined && error instanceof ClosedBeforeUse)) throw error;',
    replace: 'if (kept === undefined) throw error;',
    tests: 'test/http/sender.test.ts',
  },
  {
    rule: 'R3',
    file: guard,
    find: 'if (translated !== undefined) {',
    replace: "if (translated === '') {",
    tests: guardTests,
  },
  {
    rule: 'R72',
    file: guard,
    find: 'return address.match(GLOBAL_UNICAST) ? undefined',
    replace: 'return address.match(GLOBAL_UNICAST) || true ? undefined',
    tests: guardTests,
  },
  {
    rule: 'R72',
    file: 'src/endpoints.ts',
    find: ' || refusals.length < resolved.length',
    replace: '',
    tests: 'test/client/endpoint.test.ts',
  },
  {
    rule: 'R72',
    file: customHeaders,
    find: "'user-agent|traceparent|tracestate|baggage|b3',",
    replace: "'user-agent|traceparent|baggage|b3',",
    tests: customHeaderTests,
  },
  {
    rule: 'R72',
    file: customHeaders,
    find: 'return JSON.stringify([merchantId, url, names]);',
    replace: 'return JSON.stringify([merchantId, names]);',
    tests: customHeaderTests,
  },
  {
    rule: 'R63',
    file: 'src/policy/rotation.ts',
    find: 'return { ...endpoint, next };',
    replace: 'return { ...promote(endpoint), next };',
    tests: rotationTests,
  },
  {
    rule: 'R63',
    file: merchantState,
    find: 'if (now < promotionDueAt(this.known.endpoint)) return;',
    replace: 'if (now <= promotionDueAt(this.known.endpoint)) return;',
    tests: rotationTests,
  },
  {
    rule: 'R63',
    file: merchantState,
    find: 'return Math.min(this.nextCircuitTickAt(), promotionDueAt(this.known.endpoint));',
    replace: 'return this.nextCircuitTickAt();',
    tests: rotationTests,
  },
  {
    rule: 'R63',
    file: 'src/http/signatures.ts',
    find: "'X-Webhook-Signature': ownSignature(message, secret),",
    replace: "'X-Webhook-Signature': ownSignature(message, nextSecret ?? secret),",
    tests: 'test/http/signatures.test.ts',
  },
  {
    rule: 'R3',
    file: 'src/receiver/receiver.ts',
    find: 'return { outcome, status: 503,',
    replace: 'return { outcome, status: 409,',
    tests: kitTests,
  },
  {
    rule: 'R61',
    file: 'src/receiver/verify.ts',
    find: "if (age > toleranceSeconds) return refused('stale-timestamp');",
    replace: '',
    tests: kitTests,
  },
  {
    rule: 'R62',
    file: 'src/receiver/verify.ts',
    find: 'genuine.includes(false)',
    replace: '!genuine.includes(true)',
    tests: kitTests,
  },
  {
    rule: 'R63',
    file: 'src/receiver/verify.ts',
    find: " ${text('x-webhook-signature-next')}",
    replace: '',
    tests: kitTests,
  },
  {
    rule: 'R64',
    file: 'src/receiver/once.ts',
    find: '      await claim.release();',
    replace: '      await claim.done();',
    tests: 'test/receiver/once.test.ts',
  },
  {
    rule: 'R8',
    file: egress,
    find: 'seen.at - at < windowMs',
    replace: 'seen.at - at <= windowMs',
    tests: egressTests,
  },
  {
    rule: 'R8',
    file: egress,
    find: 'failures.length < EGRESS_NUMBERS.failedShare',
    replace: 'failures.length <= EGRESS_NUMBERS.failedShare',
    tests: egressTests,
  },
  {
    rule: 'R8',
    file: egress,
    find: '.size >= EGRESS_NUMBERS.leastMerchants',
    replace: '.size > EGRESS_NUMBERS.leastMerchants',
    tests: egressTests,
  },
];
