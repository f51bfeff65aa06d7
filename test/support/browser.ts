import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

/** A Chromium on this machine: the one that `CHROMIUM` names, else one on the path. */
export async function findChromium(): Promise<string | undefined> {
  const { CHROMIUM: named, PATH: path = '' } = process.env;
  if (named) return named;
  for (const folder of path.split(delimiter)) {
    for (const name of NAMES) {
      const file = join(folder, name);
      const isThere = await access(file, constants.X_OK).then(
        () => true,
        () => false,
      );
      if (isThere) return file;
    }
  }
  return undefined;
}
