/** Statuses that moved money, by event type; `anyStatus` where the type alone says so (R30). */
const moneyStatuses = new Map<string, ReadonlySet<string> | 'anyStatus'>([
  ['payment.status_changed', new Set(['paid', 'settled', 'refunded'])],
  ['withdrawal.status_changed', new Set(['completed'])],
  ['exchange.status_changed', new Set(['completed'])],
  ['refund.completed', 'anyStatus'],
  ['refund.reversed', 'anyStatus'],
]);

/**
 * R30: whether an event moved money, by its type and the top-level `status` of its body. Anything not
 * listed, unknown types and statuses included, is not money.
 */
export function isMoneyEvent(type: string, status: unknown): boolean {
  const statuses = moneyStatuses.get(type);
  if (statuses === undefined) return false;
  return statuses === 'anyStatus' || (typeof status === 'string' && statuses.has(status));
}

/** The top-level `status` of a JSON body, if the body is an object that has one. */
export function bodyStatus(body: unknown): unknown {
  return typeof body === 'object' && body !== null && 'status' in body ? body.status : undefined;
}
