import { createInterface } from 'node:readline/promises';

/** Asks a yes-or-no question on the terminal; null when there is none to ask on. */
export function askOnTerminal(): ((question: string) => Promise<boolean>) | null {
  if (process.stdin.isTTY !== true) return null;
  return async (question) => {
    const lines = createInterface({ input: process.stdin, output: process.stderr });
    try {
      return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `)).trim());
    } finally {
      lines.close();
    }
  };
}
