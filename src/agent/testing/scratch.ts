/** Scratch folders and tiny executables for tests of the agent. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export interface Scratch {
  readonly path: string;
  /** Writes an executable shell script. */
  script(name: string, body: string): string;
  remove(): void;
}

export function scratch(): Scratch {
  const path = mkdtempSync(join(tmpdir(), 'belay-agent-'));
  return {
    path,
    script: (name, body) => {
      const file = join(path, name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, `#!/bin/sh\n${body}\n`);
      chmodSync(file, 0o755);
      return file;
    },
    remove: () => rmSync(path, { recursive: true, force: true }),
  };
}
