/** Rotation of the master key from outside a running control plane. */
import { existsSync, renameSync } from 'node:fs';
import path from 'node:path';
import type { Clock, Log } from '../engine/ports.ts';
import { createKeyFile, readKeyFile } from '../security/master-key.ts';
import { rotateMasterKey } from '../security/secrets.ts';
import { openStore } from '../store/open.ts';
import { type ClaimedFolder, claimFolder } from './instance.ts';

export const masterKeyFile = (dataDir: string): string => path.join(dataDir, 'master.key');
export const storeUrlOf = (dataDir: string): string => `sqlite:${path.join(dataDir, 'belay.db')}`;

const silent: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

export interface RotationResult {
  readonly rows: number;
  readonly keyFile: string;
  readonly oldKeyFile: string;
}

/**
 * Makes a new key beside the old one, seals everything anew in one transaction, then swaps the files. After a crash
 * between the two the new key lies in `master.key.next` and a second call finishes. `DataFolderInUse` while a control
 * plane runs in the folder: it would go on sealing with the old key.
 */
export async function rotateMasterKeyOf(options: {
  readonly dataDir: string;
  readonly storeUrl?: string;
  /** By default `master.key` in the data folder. */
  readonly keyFile?: string;
  readonly clock: Clock;
}): Promise<RotationResult> {
  const keyFile = options.keyFile ?? masterKeyFile(options.dataDir);
  const next = `${keyFile}.next`;
  const oldKeyFile = `${keyFile}.old`;
  const oldKey = await readKeyFile(keyFile);
  if (!existsSync(next)) await createKeyFile(next);
  const newKey = await readKeyFile(next);
  const store = await openStore(options.storeUrl ?? storeUrlOf(options.dataDir), { clock: options.clock });
  let folder: ClaimedFolder | null = null;
  try {
    folder = await claimFolder(options.dataDir, store, silent);
    const rows = await rotateMasterKey(store, oldKey, newKey);
    renameSync(keyFile, oldKeyFile);
    renameSync(next, keyFile);
    return { rows, keyFile, oldKeyFile };
  } finally {
    folder?.release();
    await store.close();
  }
}
