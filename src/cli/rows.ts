/** How each kind looks as a row. Values are text; `–` stands for nothing. */
import { formatDuration } from '../base/units.ts';
import type { Condition } from '../model/index.ts';
import type { ApiObject } from './client.ts';
import { age } from './output.ts';

/** One member, as the status has it. */
export interface MemberRow {
  readonly name: string;
  readonly role?: string;
  readonly replicaSet?: string;
  readonly state?: string;
  readonly health?: string;
  readonly lagMillis?: number;
  readonly version?: string;
  readonly configVersion?: number;
  readonly serviceId?: string;
  readonly hostName?: string;
  readonly host?: string;
  readonly port?: number;
  readonly priority?: number;
  readonly volumeBytes?: number;
  readonly newestRun?: string;
  readonly votes?: number;
  readonly hidden?: boolean;
  readonly secondaryDelaySecs?: number;
  readonly tags?: Readonly<Record<string, string>>;
  readonly stage?: string;
  readonly message?: string;
  readonly lastSeen?: string;
  readonly progressPercent?: number;
}
/** One replica set, as the status has it. */
export interface SetRow {
  readonly name: string;
  readonly role?: string;
  readonly stage?: string;
  readonly term?: number;
  readonly primary?: string;
  readonly voters?: number;
  readonly healthyVoters?: number;
  readonly majority?: number;
  readonly featureCompatibilityVersion?: string;
  readonly registered?: boolean;
}

/** What the command line reads of a status. */
export interface StatusRow {
  readonly phase?: string;
  readonly message?: string;
  readonly now?: string;
  readonly primary?: string;
  readonly readyMembers?: number;
  readonly totalMembers?: number;
  readonly observedGeneration?: number;
  readonly connectionString?: string;
  readonly members?: readonly MemberRow[];
  readonly conditions?: readonly Condition[];
  readonly warnings?: readonly string[];
  readonly version?: string;
  readonly featureCompatibilityVersion?: string;
  /** Of an operation. */
  readonly state?: string;
  readonly completedMembers?: readonly string[];
  readonly currentMember?: string;
  readonly progressPercent?: number;
  readonly cancellable?: boolean;
  readonly cancelRequested?: boolean;
  readonly requestedBy?: string;
  readonly attempts?: number;
  readonly nextTryAt?: string;
  readonly startedAt?: string;
  readonly finishedAt?: string;
  readonly replicaSets?: readonly SetRow[];
  /** Of a sharded cluster. */
  readonly balancer?: string;
  /** What the balancer was before Belay began to hold it off. */
  readonly balancerBefore?: string;
  /** Of a database: what runs, and what just ended. */
  readonly operations?: readonly {
    readonly name: string;
    readonly type: string;
    readonly state: string;
    readonly requestedBy?: string;
  }[];
  /** Changes go on outside the maintenance windows. */
  readonly windowOverride?: {
    readonly until: string;
    readonly operation: string;
    readonly reason?: string;
    readonly requestedBy?: string;
  };
}

/** An object's status, or an empty one. */
export const statusOf = (object: ApiObject): StatusRow => (object.status ?? {}) as StatusRow;

interface Column {
  readonly title: string;
  readonly wide?: boolean;
  readonly value: (object: ApiObject, now: number) => string;
}

const dash = (value: unknown): string =>
  value === undefined || value === null || value === '' ? '–' : String(value);
const condition = (object: ApiObject, type: string): string =>
  dash(statusOf(object).conditions?.find((c) => c.type === type)?.status);
const name: Column = { title: 'NAME', value: (o) => o.metadata.name };
const ageColumn: Column = { title: 'AGE', value: (o, now) => age(o.metadata.creationTimestamp, now) };
const phase: Column = { title: 'PHASE', value: (o) => dash(statusOf(o).phase ?? 'Pending') };

/** The largest lag of a secondary, `–` when none is known. */
export function worstLag(object: ApiObject): string {
  const lags = (statusOf(object).members ?? [])
    .filter((m) => m.state === 'SECONDARY' && m.lagMillis !== undefined)
    .map((m) => m.lagMillis as number);
  return lags.length === 0 ? '–' : lag(Math.max(...lags));
}
/** A lag for people; under a second it is none. */
export const lag = (millis: number): string => (millis < 1000 ? '0 s' : formatDuration(millis));

const progress = (o: ApiObject): string => {
  const { progressPercent } = statusOf(o);
  return progressPercent === undefined ? '–' : `${Math.round(progressPercent)} %`;
};

interface TaskStatus {
  readonly owner?: string;
  readonly actions?: readonly { readonly state: string; readonly deadline?: string }[];
}
const actionsOf = (o: ApiObject) => (o.status as TaskStatus | undefined)?.actions ?? [];
const heldOf = (o: ApiObject) => actionsOf(o).filter((a) => a.state !== 'pending');

/** What runs, and an arrow to what is wanted while that differs; before anything runs only what is wanted. */
function versions(o: ApiObject): string {
  const wanted = dash(o.spec['version']);
  const running = (statusOf(o).members ?? []).flatMap((m) => (m.version === undefined ? [] : [m.version]));
  const others = [...new Set(running)].filter((version) => version !== wanted).sort();
  return others.length === 0 ? wanted : `${others.join(', ')} → ${wanted}`;
}

const isSharded = (o: ApiObject): boolean => o.spec['type'] === 'ShardedCluster';
const count = (o: ApiObject, field: string): string => dash(o.spec[field]);

/** Shards that a router has added, of those there should be. */
const shards = (o: ApiObject): string => {
  const registered = (statusOf(o).replicaSets ?? []).filter((s) => s.registered === true).length;
  return isSharded(o) ? `${registered}/${count(o, 'shardCount')}` : '–';
};
/** Routers that reach the config servers, of those there should be. */
const routers = (o: ApiObject): string => {
  const well = (statusOf(o).members ?? []).filter((m) => m.role === 'router' && m.health === 'healthy');
  return isSharded(o) ? `${well.length}/${count(o, 'mongosCount')}` : '–';
};
/** Off because of us is no wish of anybody. */
const balancer = (o: ApiObject): string => {
  const { balancer: is, balancerBefore } = statusOf(o);
  return is === 'off' && balancerBefore === 'on' ? 'off (Belay)' : dash(is);
};
/** Healthy voters of each set, by its name without that of the cluster. */
const sets = (o: ApiObject): string =>
  !isSharded(o)
    ? '–'
    : dash(
        (statusOf(o).replicaSets ?? [])
          .map((s) => {
            const short = s.name.replace(`${o.metadata.name}-`, '');
            return `${short} ${s.healthyVoters ?? 0}/${s.voters ?? 0}`;
          })
          .join(', '),
      );

const COLUMNS: Readonly<Record<string, readonly Column[]>> = {
  MongoDB: [
    name,
    { title: 'TYPE', value: (o) => dash(o.spec['type']) },
    { title: 'VERSION', value: versions },
    {
      title: 'MEMBERS',
      value: (o) =>
        `${statusOf(o).readyMembers ?? 0}/${statusOf(o).totalMembers ?? dash(isSharded(o) ? null : (o.spec['members'] ?? 1))}`,
    },
    phase,
    { title: 'READY', wide: true, value: (o) => condition(o, 'Ready') },
    { title: 'PRIMARY', wide: true, value: (o) => dash(statusOf(o).primary) },
    { title: 'LAG', wide: true, value: worstLag },
    { title: 'SHARDS', wide: true, value: shards },
    { title: 'ROUTERS', wide: true, value: routers },
    { title: 'BALANCER', wide: true, value: balancer },
    { title: 'SETS', wide: true, value: sets },
    {
      title: 'NOW',
      wide: true,
      value: (o) =>
        dash(statusOf(o).now ?? (statusOf(o).phase === 'Ready' ? undefined : statusOf(o).message)),
    },
    ageColumn,
  ],
  MongoDBUser: [
    name,
    { title: 'USERNAME', value: (o) => dash(o.spec['username']) },
    { title: 'DB', value: (o) => dash(o.spec['db']) },
    {
      title: 'MONGODB',
      value: (o) => dash((o.spec['mongodbResourceRef'] as { name?: string } | undefined)?.name),
    },
    phase,
    { title: 'MESSAGE', wide: true, value: (o) => dash(statusOf(o).message) },
    ageColumn,
  ],
  Operation: [
    name,
    { title: 'TYPE', value: (o) => dash(o.spec['type']) },
    {
      title: 'MONGODB',
      value: (o) => dash((o.spec['mongodbResourceRef'] as { name?: string } | undefined)?.name),
    },
    { title: 'STATE', value: (o) => dash(statusOf(o).state ?? 'Waiting') },
    { title: 'PROGRESS', value: progress },
    { title: 'CURRENT', value: (o) => dash(statusOf(o).currentMember) },
    { title: 'BY', wide: true, value: (o) => dash(statusOf(o).requestedBy) },
    { title: 'SINCE', value: (o, now) => age(statusOf(o).startedAt ?? o.metadata.creationTimestamp, now) },
    { title: 'MESSAGE', value: (o) => dash(statusOf(o).message) },
  ],
  MaintenanceTask: [
    name,
    { title: 'OWNER', value: (o) => dash((o.status as TaskStatus | undefined)?.owner ?? o.spec['owner']) },
    { title: 'MODE', value: (o) => dash(o.spec['mode']) },
    { title: 'GRANTED', value: (o) => `${heldOf(o).length}/${actionsOf(o).length}` },
    {
      title: 'UNTIL',
      value: (o) =>
        dash(
          heldOf(o)
            .map((a) => a.deadline)
            .sort()
            .at(-1),
        ),
    },
    phase,
    { title: 'REASON', wide: true, value: (o) => dash(o.spec['reason']) },
    ageColumn,
  ],
  Topology: [
    name,
    {
      title: 'NODES',
      value: (o) => String((o.spec['nodes'] as readonly unknown[] | undefined)?.length ?? 0),
    },
    phase,
    { title: 'REPORTED', value: (o) => condition(o, 'HealthReported') },
    { title: 'STALE', value: (o) => condition(o, 'Stale') },
    { title: 'MESSAGE', value: (o) => dash(statusOf(o).message) },
    ageColumn,
  ],
  Secret: [
    name,
    { title: 'KEYS', value: (o) => dash((o.spec['keys'] as readonly string[] | undefined)?.join(', ')) },
  ],
  Host: [
    name,
    { title: 'ADDRESS', value: (o) => dash((o.status as { address?: string } | undefined)?.address) },
    { title: 'CONNECTED', value: (o) => dash((o.status as { connected?: boolean } | undefined)?.connected) },
    {
      title: 'MEMBERS',
      value: (o) => String((o.status as { members?: readonly string[] } | undefined)?.members?.length ?? 0),
    },
    {
      title: 'AGENT',
      wide: true,
      value: (o) => dash((o.status as { agentVersion?: string } | undefined)?.agentVersion),
    },
    { title: 'UNSCHEDULABLE', wide: true, value: (o) => dash(o.spec['unschedulable'] ?? false) },
    { title: 'EXECUTABLES', wide: true, value: (o) => dash(executables(o)) },
    ageColumn,
    { title: 'MAINTENANCE', value: (o) => dash(heldBy(o)) },
  ],
  Event: [
    {
      title: 'LAST SEEN',
      value: (o, now) => age((o.spec['lastTimestamp'] ?? o.metadata.creationTimestamp) as string, now),
    },
    { title: 'TYPE', value: (o) => dash(o.spec['type']) },
    { title: 'REASON', value: (o) => dash(o.spec['reason']) },
    { title: 'OBJECT', value: (o) => regarding(o) },
    { title: 'COUNT', wide: true, value: (o) => dash(o.spec['count']) },
    { title: 'MESSAGE', value: (o) => dash(o.spec['message']) },
  ],
};

const regarding = (o: ApiObject): string => {
  const r = o.spec['regarding'] as { kind?: string; name?: string } | undefined;
  return r === undefined ? '–' : `${r.kind?.toLowerCase()}/${r.name}`;
};
const executables = (o: ApiObject): string =>
  Object.entries((o.status as { executables?: Record<string, string[]> } | undefined)?.executables ?? {})
    .map(([product, versions]) => `${product} ${versions.join(' ')}`)
    .join(', ');

/** Whose maintenance a host is in. */
function heldBy(o: ApiObject): string | undefined {
  const held = (o.status as { maintenance?: { task: string; owner: string; until?: string } } | undefined)
    ?.maintenance;
  if (held === undefined) return undefined;
  return `${held.task} (${held.owner})${held.until === undefined ? '' : ` until ${held.until}`}`;
}

const FALLBACK: readonly Column[] = [name, phase, ageColumn];

/** Headings and rows of some objects of one kind. */
export function rowsOf(
  kind: string,
  objects: readonly ApiObject[],
  wide: boolean,
  withNamespace: boolean,
  now: number,
): { headings: string[]; rows: string[][] } {
  const columns = (COLUMNS[kind] ?? FALLBACK).filter((c) => wide || c.wide !== true);
  const all = withNamespace
    ? [{ title: 'NAMESPACE', value: (o: ApiObject) => o.metadata.namespace }, ...columns]
    : columns;
  return { headings: all.map((c) => c.title), rows: objects.map((o) => all.map((c) => c.value(o, now))) };
}
