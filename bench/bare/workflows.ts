import { proxyActivities, proxyLocalActivities, setHandler, sleep } from '@temporalio/workflow';
import { defaultPolicy } from '../../src/policy/policy.ts';
import { isAsleepQuery, type BareActivities, type BarePost } from './messages.ts';

const { attemptTimeoutMs, attemptOverheadMs, maxAgeMs } = defaultPolicy;

/** The limits of the product's attempt, and Temporal's own retries. */
const limits = {
  startToCloseTimeout: attemptTimeoutMs + attemptOverheadMs,
  scheduleToCloseTimeout: maxAgeMs + attemptTimeoutMs,
};
const { post } = proxyActivities<BareActivities>(limits);
const { post: postLocally } = proxyLocalActivities<BareActivities>(limits);

/** The floor: one POST and nothing else. */
export async function barePost(request: BarePost): Promise<void> {
  await post(request);
}

/** The same in a local activity: nothing of it is in the history until it has ended. */
export async function barePostLocally(request: BarePost): Promise<void> {
  await postLocally(request);
}

/** One POST, whatever the answer, and a long sleep. */
export async function bareSleeper(request: BarePost, sleepMs: number): Promise<void> {
  let asleep = false;
  setHandler(isAsleepQuery, () => asleep);
  await post({ ...request, anyAnswer: true });
  asleep = true;
  await sleep(sleepMs);
}
