import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openExecutables } from '../agent/executables.ts';
import { CATALOG } from '../model/index.ts';
import { simulatedBuilds } from './up.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'belay-up-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test('A1.1 the simulator stands in for every build of the catalog, and says so again after a restart', async () => {
  const versions = CATALOG.map((build) => build.version).sort();
  const all = { mongod: versions, mongos: versions };
  expect(await openExecutables(simulatedBuilds(dir), '').found()).toEqual(all);
  expect(await openExecutables(simulatedBuilds(dir), '').found()).toEqual(all);
}, 60_000);
