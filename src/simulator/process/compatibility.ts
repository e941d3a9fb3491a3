/** The feature compatibility version in the data, and whether this binary may open it (6). */
import type { DataStore, ServerNode } from '../contracts.ts';
import { seriesOf } from '../wire/versions.ts';
import type { SimulatorNode } from './node.ts';

/** Data another binary must open: exit 62. */
export class CompatibilityError extends Error {}

const FCV_NS = 'admin.system.version';
const FCV_ID = 'featureCompatibilityVersion';

/** What each series accepts: the last long-term one, the last continuous one, its own. */
const ACCEPTED: Readonly<Record<string, readonly string[]>> = {
  '4.4': ['4.2', '4.4'],
  '5.0': ['4.4', '5.0'],
  '6.0': ['5.0', '5.3', '6.0'],
  '7.0': ['6.0', '6.3', '7.0'],
  '8.0': ['7.0', '7.3', '8.0'],
};

/** The compatibility versions a binary of this version can run with, its own last. */
export const acceptedFcvs = (version: string): readonly string[] =>
  ACCEPTED[seriesOf(version)] ?? [seriesOf(version)];

/** Throws CompatibilityError when the data's compatibility version is not one this binary accepts. */
export function assertCompatible(data: DataStore, version: string): void {
  const [document] = data.find(FCV_NS, { filter: { _id: FCV_ID } });
  const found: unknown = document?.['version'];
  const accepted = acceptedFcvs(version);
  if (found === undefined || accepted.includes(String(found))) return;
  const link = 'https://docs.mongodb.com/master/release-notes/7.0-compatibility/#feature-compatibility';
  throw new CompatibilityError(
    `UPGRADE PROBLEM: Found an invalid featureCompatibilityVersion document (ERROR: Location4926900: Invalid ` +
      `featureCompatibilityVersion document in admin.system.version: { _id: "${FCV_ID}", version: "${found}" }. See ${link}. ` +
      `:: caused by :: Invalid feature compatibility version value '${found}'; expected '${accepted.join("' or '")}'. See ${link}.). ` +
      `If the current featureCompatibilityVersion is below ${accepted[0]}, see the documentation on upgrading at ` +
      `https://docs.mongodb.com/master/release-notes/${accepted[0]}/#upgrade-procedures.`,
  );
}

/** The stored compatibility version, as getParameter shows it. */
export interface FcvDocument {
  readonly version: string;
  readonly targetVersion?: string;
  readonly previousVersion?: string;
}

/** The version in the data; before any was written, what a fresh process starts with. 258 while data is being copied. */
export function storedFcv(node: ServerNode): FcvDocument {
  const [document] = node.data.find(FCV_NS, { filter: { _id: FCV_ID } });
  if (document !== undefined) {
    const { _id: _, ...rest } = document;
    return rest as FcvDocument;
  }
  return { version: freshFcv(node) };
}

/** Shard servers start with the older version, so that they fit into any cluster; others with their own. */
function freshFcv(node: ServerNode): string {
  const accepted = acceptedFcvs(node.version);
  return (
    (node.options['sharding']?.['clusterRole'] === 'shardsvr' ? accepted[0] : accepted.at(-1)) ??
    seriesOf(node.version)
  );
}

/** Stores the version, replicated. Only while writable. */
export function writeFcv(node: SimulatorNode, fcv: FcvDocument): void {
  const context = { stamp: node.stamp(), wall: node.now() };
  if (node.data.info(FCV_NS) === undefined) node.data.create(FCV_NS, {}, context);
  const spec = { filter: { _id: FCV_ID }, update: { _id: FCV_ID, ...fcv }, multi: false, upsert: true };
  node.data.update(FCV_NS, spec, context);
  node.log.log('I', 'REPL', 20459, 'initandlisten', 'Setting featureCompatibilityVersion', {
    newVersion: fcv.version,
  });
}

const WRITABLE_TRIES = 100;
const WRITABLE_PAUSE = 50;

/** Writes the first compatibility document: at once on a standalone, after the first election on a new set. */
export function keepFcv(node: SimulatorNode): void {
  const missing = (): boolean => node.data.find(FCV_NS, { filter: { _id: FCV_ID } }).length === 0;
  const { replication } = node;
  if (replication === null) {
    if (missing()) writeFcv(node, storedFcv(node));
    return;
  }
  const tryWrite = (left: number): void => {
    if (left === 0 || !missing()) return;
    if (replication.isWritablePrimary()) writeFcv(node, storedFcv(node));
    else setTimeout(() => tryWrite(left - 1), WRITABLE_PAUSE).unref();
  };
  node.data.onApplied((entry) => {
    if (entry.op === 'n' && entry.o['msg'] === 'new primary') setImmediate(() => tryWrite(WRITABLE_TRIES));
  });
}
