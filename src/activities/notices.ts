import { log } from '@temporalio/activity';
import type { EgressNotice, Notice, NoticeActivities } from './types.ts';

/**
 * Is told of each event once, or again after a fault of our own: {@link Notice.id} tells which it is. What it throws is
 * tried again for 10 minutes.
 */
export type NoticeHook = (notice: Notice | EgressNotice) => Promise<void> | void;

/** @param hook - absent where operators want no notices. */
export function createNoticeActivities(hook: NoticeHook | undefined): NoticeActivities {
  return {
    async notify(notice) {
      if (hook === undefined) return;
      await hook(notice);
      const { id, type, merchantId } = notice;
      log.info('notice', { merchantId, notice: id, type });
    },
  };
}
