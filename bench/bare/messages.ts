import { defineQuery } from '@temporalio/workflow';

export const BARE_TASK_QUEUE = 'hookladder-bench-bare';
export const BARE_POST = 'barePost';
export const BARE_POST_LOCALLY = 'barePostLocally';
export const BARE_SLEEPER = 'bareSleeper';

/** A webhook for the bare engine. */
export interface BarePost {
  readonly url: string;
  readonly webhookId: string;
  readonly body: string;
  /** Whether an answer other than 2xx is good too; otherwise Temporal tries again. */
  readonly anyAnswer?: boolean;
}

export interface BareActivities {
  post(request: BarePost): Promise<number>;
}

export const isAsleepQuery = defineQuery<boolean>('isAsleep');
