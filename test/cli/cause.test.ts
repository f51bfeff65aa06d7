import { expect, test, vi } from 'vitest';
import { causeOf } from '../../src/cli/context.ts';

vi.mock(import('node:os'), async (original) => ({
  ...(await original()),
  userInfo: () => {
    throw new Error('uv_os_get_passwd returned ENOENT');
  },
}));

test('who asks is told by number where the user has no name, as in a container of any uid', () => {
  expect(causeOf({ why: 'they moved' })).toEqual({
    by: `uid ${process.getuid?.()}`,
    why: 'they moved',
  });
  expect(causeOf({ by: 'ann' })).toEqual({ by: 'ann' });
});
