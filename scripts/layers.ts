/**
 * The rooms and what each may import: the one table behind the layer check and the picture in ARCHITECTURE.md.
 * Arrows point up only: a room may import the rooms it names, never one that names it.
 */
export interface Room {
  readonly name: string;
  readonly imports: readonly string[];
  /** No I/O, no clock, no randomness, no Node types. */
  readonly pure: boolean;
  readonly purpose: string;
}

const PURE = ['base', 'model', 'clusters', 'maintenance'];

export const ROOMS: readonly Room[] = [
  { name: 'base', imports: [], pure: true, purpose: 'units, results, secrets, errors, seeded randomness' },
  {
    name: 'model',
    imports: ['base'],
    pure: true,
    purpose: 'the language: kinds, schemas, validation, converters',
  },
  {
    name: 'clusters',
    imports: ['base', 'model'],
    pure: true,
    purpose: 'the brain: planners, guard, preview, status',
  },
  {
    name: 'maintenance',
    imports: ['base', 'model', 'clusters'],
    pure: true,
    purpose: 'may this go down now: fleet, availability rules, limits, tasks',
  },
  { name: 'engine', imports: PURE, pure: false, purpose: 'ports, queue, leases, journal, executor' },
  {
    name: 'authority',
    imports: [...PURE, 'engine'],
    pure: false,
    purpose: 'maintenance tasks and locks kept in the store, granted by one control plane at a time',
  },
  {
    name: 'provider',
    imports: [...PURE, 'engine', 'authority'],
    pure: false,
    purpose: 'readings and effects of one cluster through the ports',
  },
  {
    name: 'store',
    imports: [...PURE, 'engine'],
    pure: false,
    purpose: 'SQLite, PostgreSQL and memory behind one port',
  },
  { name: 'security', imports: [...PURE, 'engine'], pure: false, purpose: 'CA, sealed secrets, tokens' },
  { name: 'platforms', imports: [...PURE, 'engine'], pure: false, purpose: 'where services run: hosts' },
  { name: 'channel', imports: [...PURE, 'engine'], pure: false, purpose: 'the agent channel, both ends' },
  {
    name: 'grpc',
    imports: [...PURE, 'engine', 'authority', 'security'],
    pure: false,
    purpose: 'YDB’s maintenance service over gRPC',
  },
  {
    name: 'server',
    imports: [
      ...PURE,
      'engine',
      'authority',
      'provider',
      'store',
      'security',
      'platforms',
      'channel',
      'grpc',
    ],
    pure: false,
    purpose: 'REST and the control plane’s composition',
  },
  {
    name: 'agent',
    imports: [...PURE, 'engine', 'channel'],
    pure: false,
    purpose: 'supervisor and MongoDB commands on a host',
  },
  {
    name: 'cli',
    imports: [...PURE, 'engine', 'store', 'security', 'channel', 'server', 'agent'],
    pure: false,
    purpose: 'verbs, tables, progress; up and demo',
  },
  {
    name: 'simulator',
    imports: ['base'],
    pure: false,
    purpose: 'the stand-in mongod: data, replication, wire, process',
  },
  {
    name: 'world',
    imports: [...PURE, 'engine', 'authority', 'provider', 'platforms', 'store', 'agent', 'simulator'],
    pure: false,
    purpose: 'the deterministic world: virtual time, faults, checkers, seeds',
  },
];
