import { setTimeout as sleep } from 'node:timers/promises';
import {
  Connection,
  isGrpcServiceError,
  ServiceError,
  WorkflowNotFoundError,
  type Client,
} from '@temporalio/client';
import { NoWorker, TemporalUnavailable } from '../errors.ts';

// Status codes of gRPC, by their numbers on the wire.
const CANCELLED = 1;
const DEADLINE_EXCEEDED = 4;
const FAILED_PRECONDITION = 9;
const UNAVAILABLE = 14;

/** For a call that waits for something to happen, however long that takes. */
export const NO_LIMIT = Number.POSITIVE_INFINITY;

/** How soon a workflow is asked again that could not answer just then, milliseconds. */
const ASK_AGAIN_MS = 200;

/** Calls Temporal within a time limit and turns what it says into the client's own errors. */
export class TemporalCalls {
  readonly client: Client;
  private readonly limitMs: number;

  constructor(client: Client, limitMs: number) {
    this.client = client;
    this.limitMs = limitMs;
  }

  /**
   * @param limitMs - for calls that wait for something; the client's limit by default.
   * @throws {@link TemporalUnavailable} if Temporal does not answer within the limit.
   */
  async call<T>(operation: () => Promise<T>, limitMs = this.limitMs): Promise<T> {
    const deadline = Date.now() + limitMs;
    try {
      if (limitMs === NO_LIMIT) return await operation();
      return await this.client.connection.withDeadline(deadline, operation);
    } catch (error) {
      if (grpcCode(error) === UNAVAILABLE || isTimeout(error, deadline))
        throw new TemporalUnavailable(error, addressOf(this.client));
      throw error;
    }
  }

  /**
   * A call that a worker must answer. One that meets a failed workflow task is made again: an entity that ends a
   * run while signals arrive has one for a moment, and a bad deploy until it is replaced.
   * @throws {@link NoWorker} if Temporal is there but no worker took it in time.
   */
  async askWorker<T>(operation: () => Promise<T>, limitMs = this.limitMs): Promise<T> {
    const deadline = Date.now() + limitMs;
    try {
      return await this.call(operation, limitMs);
    } catch (error) {
      if (isTaskFailed(error) && Date.now() + ASK_AGAIN_MS < deadline) {
        await sleep(ASK_AGAIN_MS);
        return await this.askWorker(operation, deadline - Date.now());
      }
      const waitedForWorker = error instanceof TemporalUnavailable && grpcCode(error.cause) !== UNAVAILABLE;
      if (grpcCode(error) === FAILED_PRECONDITION || (waitedForWorker && (await this.isReachable()))) {
        throw new NoWorker(error);
      }
      throw error;
    }
  }

  /** Like {@link call}, but `undefined` if there is no such workflow. */
  async ifFound<T>(operation: () => Promise<T>): Promise<T | undefined> {
    try {
      return await this.call(operation);
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return undefined;
      throw error;
    }
  }

  private async isReachable(): Promise<boolean> {
    return await this.call(() => this.client.workflowService.getSystemInfo({})).then(
      () => true,
      () => false,
    );
  }
}

function addressOf({ connection }: Client): string | undefined {
  return connection instanceof Connection ? connection.options.address : undefined;
}

/** A call that ran into its deadline also ends as cancelled, when its retry was the one to notice. */
function isTimeout(error: unknown, deadline: number): boolean {
  const code = grpcCode(error);
  return code === DEADLINE_EXCEEDED || (code === CANCELLED && Date.now() >= deadline);
}

/** Told in words only. */
function isTaskFailed(error: unknown): boolean {
  const cause = error instanceof ServiceError ? error.cause : error;
  return isGrpcServiceError(cause) && cause.details.includes('Workflow Task in failed state');
}

function grpcCode(error: unknown): number | undefined {
  if (isGrpcServiceError(error)) return error.code;
  if (error instanceof ServiceError) return grpcCode(error.cause);
  return undefined;
}
