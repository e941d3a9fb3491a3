/** A process that writes numbered rows and says which ones were acknowledged, until it is killed. */
import { writeSync } from 'node:fs';
import { openStore } from '../open.ts';
import { ManualClock } from './clock.ts';

const [file, first] = process.argv.slice(2) as [string, string];
const store = await openStore(file, { clock: new ManualClock() });
for (let i = Number(first); ; i++) {
  const name = `w${i}`;
  const key = { kind: 'MongoDB', namespace: 'prod', name };
  // A write that was killed before its acknowledgement may be there already.
  if ((await store.get(key)) === null) await store.create({ ...key, spec: { i } });
  if ((await store.loadState(`u${i}`)) === null) {
    await store.commit({ state: { uid: `u${i}`, version: 0, value: { i } } });
  }
  writeSync(1, `${i}\n`);
}
