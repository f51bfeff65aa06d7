import { readFile } from 'node:fs/promises';

/**
 * A fenced block of docs/any-language.md, so that what the document shows is what is tested.
 * @param nth - from 0, among the blocks of this language.
 */
export async function documentedProgram(language: string, nth = 0): Promise<string> {
  const text = await readFile(new URL('../../docs/any-language.md', import.meta.url), 'utf8');
  const blocks = [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].filter(([, name]) => name === language);
  const program = blocks[nth]?.[2];
  if (program === undefined) throw new Error(`docs/any-language.md has no block ${nth} of ${language}`);
  return program;
}
