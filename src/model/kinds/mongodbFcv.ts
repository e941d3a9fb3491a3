/**
 * One rule about `spec.featureCompatibilityVersion`: it is what a new cluster begins with, and nothing afterwards. There it
 * neither changes what is in force (A8.5: an operation of its own does) nor stands in the way of another version.
 */
import type { Problem } from '../../base/error.ts';
import { findBuild, seriesOf } from '../catalog.ts';
import { type Loose, mapAt, textAt } from '../paths.ts';

const PATH = 'spec.featureCompatibilityVersion';
const FIELD = 'featureCompatibilityVersion';
const SAME = 'AlwaysMatchVersion';

/** Whatever it is for, it is written like one (UPG-01, VAL-07). */
export function fcvFormProblems(spec: Loose): readonly Problem[] {
  const fcv = textAt(spec, FIELD);
  if (fcv === undefined || fcv === SAME || /^\d+\.\d+$/.test(fcv)) return [];
  return [{ path: PATH, message: `must be a quoted string such as "7.0", or ${SAME}` }];
}

/** A cluster begins with that of its binary (UPG-01): another one would be promised and ignored. */
export function newFcvProblems(document: Loose): readonly Problem[] {
  const spec = mapAt(document, 'spec');
  const [fcv, version] = [textAt(spec, FIELD), textAt(spec, 'version') ?? ''];
  const series = findBuild(version)?.series;
  if (fcv === undefined || fcv === SAME || series === undefined || fcv === series) return [];
  if (fcvFormProblems(spec).length > 0) return [];
  const message = `${fcv} does not fit version ${version}, with which a new cluster begins; accepted: ${series}, ${SAME}`;
  return [{ path: PATH, message }];
}

/** That it does nothing is said, where it says something else than what is so. */
export function laterFcvWarnings(before: Loose, after: Loose): readonly Problem[] {
  const [old, next] = [mapAt(before, 'spec'), mapAt(after, 'spec')];
  const fcv = textAt(next, FIELD);
  if (fcv === undefined) return [];
  const wanted = fcv === SAME ? seriesOf(textAt(next, 'version') ?? '') : fcv;
  const inForce = textAt(before, 'status', FIELD) ?? seriesOf(textAt(old, 'version') ?? '');
  if (wanted === inForce) return [];
  const verb = `belay raise-fcv ${textAt(before, 'metadata', 'name') ?? 'NAME'}`;
  const message = `is what a new cluster begins with and changes nothing now: ${verb} raises what is in force, nothing lowers it`;
  return [{ path: PATH, message }];
}
