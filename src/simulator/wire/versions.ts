/** What follows from the version of the stand-in. */

/** The version when neither BELAY_SIM_VERSION nor the folder layout names one. */
export const DEFAULT_VERSION = '8.0.32-14';

const WIRE_VERSIONS: Readonly<Record<string, number>> = {
  '4.4': 9,
  '5.0': 13,
  '6.0': 17,
  '6.1': 18,
  '6.2': 19,
  '6.3': 20,
  '7.0': 21,
  '7.1': 22,
  '7.2': 23,
  '7.3': 24,
  '8.0': 25,
  '8.1': 26,
  '8.2': 27,
};

/** `8.0` of `8.0.32-14`. */
export function seriesOf(version: string): string {
  return version.split('.').slice(0, 2).join('.');
}

/** The newest wire version a series speaks. */
export function wireVersionOf(version: string): number {
  return WIRE_VERSIONS[seriesOf(version)] ?? 25;
}

/** `[8, 0, 32, 0]`, as buildInfo has it. */
export function versionArrayOf(version: string): number[] {
  const parts = version.split(/[.-]/).slice(0, 3).map(Number);
  return [parts[0] ?? 0, parts[1] ?? 0, parts[2] ?? 0, 0];
}

/** True when a version is at least the given series. */
export function atLeast(version: string, series: string): boolean {
  const [major = 0, minor = 0] = seriesOf(version).split('.').map(Number);
  const [wantedMajor = 0, wantedMinor = 0] = series.split('.').map(Number);
  return major > wantedMajor || (major === wantedMajor && minor >= wantedMinor);
}

/** Percona builds carry a build number after the version (`8.0.32-14`). */
export const isPercona = (version: string): boolean => /^\d+\.\d+\.\d+-\d+/.test(version);

/** The codeName of the argument-parser errors differs by series: named from 8.0 on. */
export const argumentErrorName = (version: string, code: number): string => {
  if (!atLeast(version, '8.0')) return `Location${code}`;
  return (
    { 40413: 'IDLDuplicateField', 40414: 'IDLFailedToParse', 40415: 'IDLUnknownField' }[code] ??
    `Location${code}`
  );
};
