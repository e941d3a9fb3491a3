/**
 * `$setWindowFields`, `$densify` and `$fill` through the mingo library, on plain JavaScript numbers: whole numbers come back as int or double, not
 * with the types they had. Rarely used; the library is only loaded when they are.
 */
import { createRequire } from 'node:module';
import type { Document } from 'bson';
import { canonicalDocument, plain } from './bson.ts';
import { located } from './expr-types.ts';
import type { StageCompiler } from './stage-types.ts';

interface Library {
  aggregate(documents: Document[], pipeline: Document[]): Document[];
}

let library: Library | undefined;

function load(): Library {
  library ??= createRequire(import.meta.url)('mingo') as Library;
  return library;
}

const throughLibrary =
  (name: string): StageCompiler =>
  (operand) => {
    const stage = { [name]: plain(operand) };
    return (documents) => {
      try {
        const result = load().aggregate(
          documents.map((document) => plain(document) as Document),
          [stage],
        );
        return result.map(canonicalDocument);
      } catch (error) {
        throw located(5371602, `${name} failed: ${error instanceof Error ? error.message : String(error)}`);
      }
    };
  };

export const WINDOW_STAGES: Readonly<Record<string, StageCompiler>> = {
  $setWindowFields: throughLibrary('$setWindowFields'),
  $densify: throughLibrary('$densify'),
  $fill: throughLibrary('$fill'),
};
