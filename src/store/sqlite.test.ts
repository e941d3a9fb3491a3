import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeStore, type PlaceOptions, type StorePlace } from './conformance.ts';
import { openStore } from './open.ts';

async function sqlitePlace({ clock, limits }: PlaceOptions): Promise<StorePlace> {
  const folder = mkdtempSync(join(tmpdir(), 'belay-store-'));
  return {
    open: () => openStore(`sqlite:${join(folder, 'data', 'belay.db')}`, { clock, limits }),
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

describeStore('SQLite', sqlitePlace, { shared: true });
