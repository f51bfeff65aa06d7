/**
 * Loaded into a worker's threads by `--import`: calls into a workflow run without the thread that the SDK has Node start
 * for each of them, to end one that does not come back within 5 s.
 */
import { Script } from 'node:vm';

const { runInContext } = Script.prototype;
Script.prototype.runInContext = function (context, options) {
  return runInContext.call(this, context, { ...options, timeout: undefined });
};
