/** What a merchant needs to receive webhooks right: docs/receivers.md. Needs nothing but Web Crypto. */
export {
  expressHandler,
  fastifyReceiver,
  fetchHandler,
  honoHandler,
  nodeHandler,
  type NodeRequest,
  type NodeResponse,
} from './adapters.ts';
export {
  KNOWN_EVENT_TYPES,
  type EventData,
  type KnownEvent,
  type KnownEventType,
  type UnknownEvent,
  type WebhookEvent,
} from './events.ts';
export { memoryStore, once, type Claim, type MemoryStoreOptions, type Once, type OnceStore } from './once.ts';
export type { Problem, ProblemCode } from './problems.ts';
export {
  createReceiver,
  PROBE_EVENT,
  RetryLater,
  type Incoming,
  type LogEntry,
  type ReceiverOptions,
  type Reply,
} from './receiver.ts';
export {
  verify,
  type HeadersLike,
  type Secrets,
  type SignatureFamily,
  type Verification,
  type VerifyOptions,
} from './verify.ts';
