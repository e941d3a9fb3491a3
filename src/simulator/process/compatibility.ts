/** The feature compatibility version in the data, and whether this binary may open it (6). */
import type { DataStore } from '../contracts.ts';
import { seriesOf } from '../wire/versions.ts';

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
