export { delivery } from './delivery.ts';
export { merchantBreaker } from './merchant-breaker.ts';
export { bulk } from './bulk.ts';
export { census } from './census.ts';
export { endpointTest } from './endpoint-test.ts';
