/** One build of Percona Server for MongoDB that clusters may run (A1.1). */
export interface CatalogBuild {
  /** Full version, `8.0.32-14`. */
  readonly version: string;
  /** Release series and feature compatibility version, `8.0`. */
  readonly series: string;
  readonly isDefault: boolean;
  /** Accepted with a warning (A1.3). */
  readonly deprecated: boolean;
  /** Name of the vendor's repository product, `psmdb-80`. */
  readonly repository: string;
  readonly source: CatalogSource;
}

/** Where a pin was read and when (A1.1). */
export interface CatalogSource {
  readonly index: string;
  readonly readOn: string;
}

/** One command of the preparation of a machine. Never run through a shell: `argv` is the whole command. */
export interface PreparationCommand {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** Distribution suffix of all package pins (A1.2). */
export const PACKAGE_SUFFIX = '.noble';
/** Percona Backup for MongoDB that all clusters use (A1.2). */
export const PBM_PACKAGE_VERSION = `2.16.0-1${PACKAGE_SUFFIX}`;
/** Set while installing packages and when running the executables (A1.4). */
export const TELEMETRY_ENV: Readonly<Record<string, string>> = { PERCONA_TELEMETRY_DISABLE: '1' };
/** When the package indexes behind the pins were read. */
export const CATALOG_READ_ON = '2026-11-29';
/** The vendor's package that sets up its repositories; not checked from here, so it stands in one place. */
const RELEASE_PACKAGE_URL = 'https://repo.percona.com/apt/percona-release_latest.generic_all.deb';
const RELEASE_PACKAGE_FILE = '/tmp/percona-release.deb';

/** A series that exists but is not offered, since the vendor calls it a technical preview (A1.3). */
export const PREVIEW_SERIES: readonly string[] = ['8.3'];

const build = (version: string, flags: { isDefault?: boolean; deprecated?: boolean } = {}): CatalogBuild => {
  const series = seriesOf(version) ?? '';
  const repository = `psmdb-${series.replace('.', '')}`;
  return {
    version,
    series,
    repository,
    isDefault: flags.isDefault ?? false,
    deprecated: flags.deprecated ?? false,
    source: { index: `${repository} noble amd64 package index`, readOn: CATALOG_READ_ON },
  };
};

/** All builds on offer, newest first (A1.1). */
export const CATALOG: readonly CatalogBuild[] = [
  build('8.0.32-14', { isDefault: true }),
  build('8.0.29-13'),
  build('7.0.43-23'),
  build('7.0.40-22'),
  build('6.0.29-23', { deprecated: true }),
];

/** The build used when a document names none. */
export const DEFAULT_VERSION = '8.0.32-14';
/** Release series on offer, newest first. */
export const SUPPORTED_SERIES: readonly string[] = [...new Set(CATALOG.map((entry) => entry.series))];

/** The series (`8.0`) of a version, or undefined when the text does not begin with one. */
export function seriesOf(version: string): string | undefined {
  return /^(\d+\.\d+)(?=$|\.\d)/.exec(version)?.[1];
}

/** Majors in the order of upgrades; the distance between two series is counted in it (S7). */
export function majorOf(version: string): number | undefined {
  const series = seriesOf(version);
  return series === undefined ? undefined : Number(series.split('.')[0]);
}

/** The catalog's entry for an exact version. */
export function findBuild(version: string): CatalogBuild | undefined {
  return CATALOG.find((entry) => entry.version === version);
}

/** The newest build of a series. */
export function newestOfSeries(series: string): CatalogBuild | undefined {
  return CATALOG.find((entry) => entry.series === series);
}

/** `8.0.32-14 (default), 8.0.29-13, …` for messages. */
export function supportedVersions(): string {
  return CATALOG.map((entry) => {
    if (entry.isDefault) return `${entry.version} (default)`;
    return entry.deprecated ? `${entry.version} (deprecated)` : entry.version;
  }).join(', ');
}

/** What a version text means. */
export type VersionResolution =
  | { readonly kind: 'exact'; readonly build: CatalogBuild; readonly warning?: string }
  | { readonly kind: 'mapped'; readonly build: CatalogBuild; readonly warning: string }
  | { readonly kind: 'refused'; readonly message: string };

/**
 * Resolves a version text. Exact pins are always accepted, deprecated ones with a warning (A1.3). The front door
 * for foreign documents (`lenient`) also takes `X.Y.Z`, `X.Y.Z-ent` and `X.Y`, which become the newest pinned build
 * of the same series, with a warning that says so (B1.3).
 */
export function resolveVersion(text: string, options: { lenient?: boolean } = {}): VersionResolution {
  const exact = findBuild(text);
  if (exact !== undefined) return { kind: 'exact', build: exact, ...deprecation(exact) };
  const series = seriesOf(text);
  if (series === undefined) {
    return { kind: 'refused', message: `is not a version; supported: ${supportedVersions()}` };
  }
  if (PREVIEW_SERIES.includes(series)) {
    return {
      kind: 'refused',
      message: `${text} is a technical preview and not offered; supported: ${supportedVersions()}`,
    };
  }
  const newest = newestOfSeries(series);
  if (newest === undefined) {
    return {
      kind: 'refused',
      message: `series ${series} is not supported; supported: ${supportedVersions()}`,
    };
  }
  if (options.lenient !== true || !/^\d+\.\d+(\.\d+(-.+)?)?$/.test(text)) {
    return { kind: 'refused', message: `${text} is not in the catalog; supported: ${supportedVersions()}` };
  }
  const extra = deprecation(newest).warning;
  const warning = `${text} runs as Percona Server for MongoDB ${newest.version}, the pinned build of series ${series}`;
  return { kind: 'mapped', build: newest, warning: extra === undefined ? warning : `${warning}; ${extra}` };
}

function deprecation(entry: CatalogBuild): { warning?: string } {
  if (!entry.deprecated) return {};
  const next = SUPPORTED_SERIES[SUPPORTED_SERIES.indexOf(entry.series) - 1];
  return { warning: `${entry.version} is deprecated; plan the upgrade to ${next ?? DEFAULT_VERSION}` };
}

/** Exact package pins (`name=version`) of one build, the same on every member (A1.2, A1.5). */
export function packagePins(entry: CatalogBuild): readonly string[] {
  const version = `${entry.version}${PACKAGE_SUFFIX}`;
  return [
    `percona-server-mongodb-server=${version}`,
    `percona-server-mongodb-mongos=${version}`,
    `percona-backup-mongodb=${PBM_PACKAGE_VERSION}`,
  ];
}

/** Prepares a machine for one build: pinned, identical for every member, plain data (A1.4, A1.5). */
export function preparationCommands(entry: CatalogBuild): readonly PreparationCommand[] {
  const env = { DEBIAN_FRONTEND: 'noninteractive', ...TELEMETRY_ENV };
  const lines: readonly (readonly string[])[] = [
    ['apt-get', 'update'],
    [
      'apt-get',
      'install',
      '-y',
      '--no-install-recommends',
      'ca-certificates',
      'curl',
      'gnupg',
      'lsb-release',
    ],
    ['curl', '-fsSL', '-o', RELEASE_PACKAGE_FILE, RELEASE_PACKAGE_URL],
    ['apt-get', 'install', '-y', RELEASE_PACKAGE_FILE],
    ['percona-release', 'enable', entry.repository, 'release', '--scheme', 'https'],
    ['percona-release', 'enable', 'pbm', 'release', '--scheme', 'https'],
    ['apt-get', 'update'],
    ['apt-get', 'install', '-y', '--no-install-recommends', '--allow-downgrades', ...packagePins(entry)],
  ];
  return lines.map((argv) => ({ argv, env }));
}
