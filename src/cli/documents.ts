import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { BelayError } from '../base/error.ts';
import { parseDocuments, type SourceDocument, type SourceProblem } from '../model/index.ts';

export interface Sources {
  readonly documents: readonly SourceDocument[];
  readonly problems: readonly SourceProblem[];
}

/** Reads `-f FILE|DIR|-` (several): every document with its place, every unreadable one with line and column. */
export async function readSources(files: readonly string[], stdin: () => Promise<string>): Promise<Sources> {
  const documents: SourceDocument[] = [];
  const problems: SourceProblem[] = [];
  for (const file of files.flatMap(expand)) {
    const parsed = parseDocuments(file === '-' ? await stdin() : read(file), file);
    documents.push(...parsed.documents);
    problems.push(...parsed.problems);
  }
  if (documents.length === 0 && problems.length === 0) {
    throw new BelayError('Usage', `nothing to read in ${files.join(', ')}`, {
      retry: 'never',
      fix: 'name a file with at least one document',
    });
  }
  return { documents, problems };
}

function expand(file: string): readonly string[] {
  if (file === '-') return [file];
  if (!existsSync(file))
    throw new BelayError('Usage', `${file} does not exist`, {
      retry: 'never',
      fix: 'give a file, a folder or - for standard input with -f',
    });
  if (!statSync(file).isDirectory()) return [file];
  const inside = readdirSync(file)
    .filter((name) => /\.(ya?ml|json)$/.test(name))
    .sort();
  if (inside.length === 0)
    throw new BelayError('Usage', `${file} holds no .yaml, .yml or .json file`, { retry: 'never' });
  return inside.map((name) => path.join(file, name));
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new BelayError('Usage', `${file} cannot be read: ${(cause as Error).message}`, {
      retry: 'never',
      cause,
    });
  }
}
