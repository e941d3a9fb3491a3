import { BelayError } from '../../base/error.ts';
import { formatBytes, formatLimit, SECOND } from '../../base/units.ts';
import { type ApiList, type ApiObject, objectPath } from '../client.ts';
import { type Context, placeOf, structured, targetOf } from '../context.ts';
import { age, asText, inLine, table } from '../output.ts';
import { lag, type MemberRow, rowsOf, type SetRow, type StatusRow, statusOf } from '../rows.ts';
import { type HostRow, inMaintenance, type NodeRow } from './taskText.ts';

/** Events shown with a description. */
const EVENTS = '15';

/** `belay describe KIND NAME`: everything a person at three in the morning wants, with the way out. */
export async function describe(context: Context, words: readonly string[]): Promise<void> {
  const { kind, name } = await targetOf(words);
  if (kind.kind === 'Event')
    throw new BelayError('Usage', 'an event is described by its object', {
      retry: 'never',
      fix: 'belay events, or belay describe KIND NAME',
    });
  const path = objectPath(kind.plural, placeOf(context, kind), name);
  const object = await context.client.get<ApiObject>(path);
  if (context.output === 'name') {
    context.terminal.out(`${kind.plural}/${name}`);
    return;
  }
  // Secrets have no history: nothing of them is kept but names and values.
  const events =
    kind.kind === 'Secret'
      ? []
      : (await context.client.get<ApiList>(`${path}/events`, { limit: EVENTS })).items;
  const format = structured(context);
  context.terminal.out(
    format === null
      ? await describeText(
          kind.kind,
          object,
          events,
          context.now(),
          await heldOf(context, kind.kind, object),
          await hostHeldOf(context, kind.kind, object),
        )
      : await asText({ object, events }, format),
  );
}

/** Members somebody has in maintenance, with who and until when: what is down there is no fault. */
async function heldOf(
  context: Context,
  kind: string,
  { metadata }: ApiObject,
): Promise<ReadonlyMap<string, string>> {
  if (kind !== 'MongoDB' && kind !== 'Host') return new Map();
  const cluster = kind === 'MongoDB' ? `${metadata.namespace ?? 'default'}/${metadata.name}` : undefined;
  const path = '/api/v1/maintenance/nodes';
  const { items } = await context.client.get<{ items: readonly NodeRow[] }>(path, { cluster });
  const held = items.filter((n) => n.holders.length > 0 && (kind === 'MongoDB' || n.host === metadata.name));
  return new Map(
    held.map((n) => {
      const [holder] = n.holders;
      return [n.name, holder === undefined ? '' : inMaintenance(holder)];
    }),
  );
}

/** Whose maintenance a host as a whole is in; null: nobody's. */
async function hostHeldOf(context: Context, kind: string, { metadata }: ApiObject): Promise<string | null> {
  if (kind !== 'Host') return null;
  const { items } = await context.client.get<{ items: readonly HostRow[] }>('/api/v1/maintenance/hosts');
  const held = items.find(({ host }) => host === metadata.name)?.held ?? null;
  return held === null ? null : inMaintenance(held);
}

/** The text of a description. `held`: by name of a member, in whose maintenance it is; `hostHeld`: the same of a host as a whole. */
export async function describeText(
  kind: string,
  object: ApiObject,
  events: readonly ApiObject[],
  now: number,
  held: ReadonlyMap<string, string> = new Map(),
  hostHeld: string | null = null,
): Promise<string> {
  const status = statusOf(object);
  return [
    ...headLines(kind, object, status, now),
    ...(await specLines(kind, object)),
    ...conditionLines(status),
    ...(kind === 'MongoDB' ? [...setLines(status), ...memberLines(status, now, held)] : []),
    ...hostLines(kind, object),
    ...(kind === 'Host' ? [...held].map(([member, text]) => pair('Maintenance', `${member}: ${text}`)) : []),
    ...(hostHeld === null ? [] : [pair('Maintenance', hostHeld)]),
    ...adviceLines(kind, object, status, events, held, hostHeld !== null),
    ...eventLines(events, now),
  ].join('\n');
}

const pair = (name: string, value: string): string => `${name.padEnd(12)} ${inLine(value)}`;

function headLines(kind: string, object: ApiObject, status: StatusRow, now: number): readonly string[] {
  const { metadata, spec } = object;
  const lines = [pair('Name', metadata.name), pair('Namespace', metadata.namespace), pair('Kind', kind)];
  if (metadata.creationTimestamp === undefined) return lines;
  const labels = Object.entries(metadata.labels ?? {});
  if (labels.length > 0) lines.push(pair('Labels', labels.map(([k, v]) => `${k}=${v}`).join(', ')));
  lines.push(pair('Created', `${metadata.creationTimestamp} (${age(metadata.creationTimestamp, now)} ago)`));
  const { observedGeneration } = status;
  const observed =
    observedGeneration === metadata.generation || kind === 'Host'
      ? ''
      : ` (observed ${observedGeneration ?? 'none'})`;
  lines.push(pair('Generation', `${metadata.generation}${observed}`));
  if (metadata.deletionTimestamp !== undefined)
    lines.push(
      pair('Deleting', `since ${metadata.deletionTimestamp} (${age(metadata.deletionTimestamp, now)} ago)`),
    );
  if (kind === 'MongoDB') lines.push(pair('Type', `${spec['type']}, ${spec['version']}${tlsText(spec)}`));
  if (kind === 'Operation') return [...lines, ...operationLines(object, status, now)];
  lines.push(pair('Phase', `${status.phase ?? 'Pending'}${status.message ? `: ${status.message}` : ''}`));
  if (status.now !== undefined && !status.now.endsWith(status.message ?? '–'))
    lines.push(pair('Now', status.now));
  if (status.connectionString) lines.push(pair('Connect', status.connectionString));
  lines.push(...runningLines(status), ...overrideLines(status));
  for (const warning of status.warnings ?? []) lines.push(pair('Warning', warning));
  return lines;
}

function runningLines({ operations = [] }: StatusRow): readonly string[] {
  return operations
    .filter(({ state }) => state === 'Running')
    .map(({ name, type, requestedBy }) => {
      const who = requestedBy === undefined ? '' : `, asked for by ${requestedBy}`;
      return pair('Operation', `${type} ${name}${who}`);
    });
}

function overrideLines({ windowOverride }: StatusRow): readonly string[] {
  if (windowOverride === undefined) return [];
  const { until, operation, reason, requestedBy } = windowOverride;
  const who = requestedBy === undefined ? operation : `${requestedBy}, ${operation}`;
  const why = reason === undefined ? '' : `: ${reason}`;
  return [pair('Override', `changes do not wait for maintenance windows until ${until} (${who})${why}`)];
}

function operationLines(object: ApiObject, status: StatusRow, now: number): readonly string[] {
  const { state = 'Waiting', message, progressPercent, currentMember, completedMembers = [] } = status;
  const { requestedBy, startedAt, finishedAt, attempts, nextTryAt, cancelRequested } = status;
  const at = (time: string): string => `${time} (${age(time, now)} ago)`;
  const percent = progressPercent === undefined ? '' : `, ${Math.round(progressPercent)} %`;
  return [
    pair('State', `${state}${percent}${message ? `: ${message}` : ''}`),
    ...(currentMember === undefined ? [] : [pair('Current', currentMember)]),
    ...(completedMembers.length === 0 ? [] : [pair('Completed', completedMembers.join(', '))]),
    ...(nextTryAt === undefined ? [] : [pair('Next try', `${nextTryAt}, after ${attempts ?? 1} failed`)]),
    ...(cancelRequested === true ? [pair('Cancel', `asked for by ${canceller(object)}`)] : []),
    ...(requestedBy === undefined ? [] : [pair('Asked by', requestedBy)]),
    ...(startedAt === undefined ? [] : [pair('Started', at(startedAt))]),
    ...(finishedAt === undefined ? [] : [pair('Finished', at(finishedAt))]),
  ];
}

const canceller = ({ metadata }: ApiObject): string =>
  metadata.annotations?.['belay.dev/cancel-requested'] ?? 'deleting it';

function tlsText(spec: Readonly<Record<string, unknown>>): string {
  const mode = (spec['security'] as { tls?: { mode?: string } } | undefined)?.tls?.mode;
  return mode === undefined ? '' : `, TLS ${mode}`;
}

/** What was asked for; a database's spec is long, and `belay get -o yaml` has it. */
async function specLines(kind: string, object: ApiObject): Promise<readonly string[]> {
  if (kind === 'MongoDB' || Object.keys(object.spec).length === 0) return [];
  const text = await asText(object.spec, 'yaml');
  return ['Spec', ...text.split('\n').map((line) => `  ${line}`)];
}

function conditionLines(status: StatusRow): readonly string[] {
  const conditions = status.conditions ?? [];
  if (conditions.length === 0) return [];
  return [
    'Conditions',
    table(
      null,
      conditions.map((c) => [`  ${c.type}`, c.status, c.reason, c.message]),
    ),
  ];
}

/** Sets of a sharded cluster, with what their loss would mean; one set alone is told of by its members. */
function setLines(status: StatusRow): readonly string[] {
  const sets = status.replicaSets ?? [];
  if (sets.length < 2) return [];
  const rows = sets.map((s) => [
    `  ${s.name}`,
    s.role ?? '–',
    s.role !== 'shard' ? '' : s.registered === true ? 'registered' : 'not registered',
    s.primary === undefined ? 'no primary' : `primary ${s.primary}`,
    `${s.healthyVoters ?? 0} of ${s.voters ?? 0} voters, majority ${s.majority ?? '–'}`,
    s.featureCompatibilityVersion === undefined ? '' : `FCV ${s.featureCompatibilityVersion}`,
  ]);
  const routers = (status.members ?? []).filter((m) => m.role === 'router');
  const well = routers.filter((m) => m.health === 'healthy').length;
  return [
    'Sets',
    table(null, rows),
    pair('Routers', `${well} of ${routers.length} reach the config servers`),
    pair('Balancer', balancerText(status)),
  ];
}

/** Who holds it off, and what it will be again: off alone looks like a person's wish. */
function balancerText({ balancer = 'not known', balancerBefore }: StatusRow): string {
  if (balancer === 'on' || balancerBefore === undefined) return balancer;
  const then = balancerBefore === 'on' ? 'was on before and is again then' : 'was off before and stays so';
  return `${balancer}: Belay holds it off while members are worked on; it ${then}`;
}

function memberLines(status: StatusRow, now: number, held: ReadonlyMap<string, string>): readonly string[] {
  const members = status.members ?? [];
  if (members.length === 0) return [];
  const rows = members.map((m) => [
    `  ${m.name}`,
    m.state ?? '–',
    m.health ?? 'unknown',
    m.version ?? '–',
    m.configVersion === undefined ? '–' : `config ${m.configVersion}`,
    m.hostName === undefined ? '–' : `host ${m.hostName}`,
    m.host === undefined || m.port === undefined
      ? '–'
      : `${m.host.includes(':') ? `[${m.host}]` : m.host}:${m.port}`,
    ...(m.votes === undefined ? ['', ''] : [`priority ${m.priority}`, votesText(m)]),
    m.lagMillis === undefined || m.state !== 'SECONDARY' ? '' : `lag ${lag(m.lagMillis)}`,
    held.get(m.name) ??
      (m.lastSeen === undefined
        ? (m.message ?? '')
        : `agent last seen ${m.lastSeen.slice(11, 19)} (${age(m.lastSeen, now)} ago)`),
  ]);
  return ['Members', table(null, rows)];
}

/** Its votes, and what else sets it apart from an ordinary member of the set. */
function votesText({ votes, hidden, secondaryDelaySecs = 0, tags = {} }: MemberRow): string {
  const tagged = Object.entries(tags).map(([name, value]) => `${name}=${value}`);
  return [
    `votes ${votes}`,
    ...(hidden === true ? ['hidden'] : []),
    ...(secondaryDelaySecs > 0 ? [`delay ${formatLimit(secondaryDelaySecs * SECOND)}`] : []),
    ...(tagged.length > 0 ? [`tags ${tagged.join(' ')}`] : []),
  ].join(', ');
}

interface HostStatus {
  readonly address?: string;
  readonly connected?: boolean;
  readonly lastSeen?: string;
  readonly agentVersion?: string;
  readonly os?: string;
  readonly cpus?: number;
  readonly memoryBytes?: number;
  readonly diskTotalBytes?: number;
  readonly diskFreeBytes?: number;
  readonly fingerprint?: string;
  readonly executables?: Readonly<Record<string, readonly string[]>>;
  readonly members?: readonly string[];
}

function hostLines(kind: string, object: ApiObject): readonly string[] {
  if (kind !== 'Host') return [];
  const s = (object.status ?? {}) as HostStatus;
  const size = (bytes: number | undefined): string => (bytes === undefined ? '–' : formatBytes(bytes));
  const executables = Object.entries(s.executables ?? {}).map(
    ([name, versions]) => `${name} ${versions.join(', ')}`,
  );
  return [
    'Machine',
    pair('  Address', s.address ?? '–'),
    pair(
      '  Agent',
      `${s.connected ? 'connected' : 'not connected'}${s.agentVersion ? `, version ${s.agentVersion}` : ''}${s.lastSeen ? `, last seen ${s.lastSeen}` : ''}`,
    ),
    pair('  System', `${s.os ?? '–'}, ${s.cpus ?? '–'} processors, memory ${size(s.memoryBytes)}`),
    pair('  Disk', `${size(s.diskFreeBytes)} of ${size(s.diskTotalBytes)} free`),
    pair('  Binaries', executables.join('; ') || 'none'),
    pair('  Members', s.members?.join(', ') || 'none'),
  ];
}

/** What somebody can do now, from what is wrong. */
function adviceLines(
  kind: string,
  object: ApiObject,
  status: StatusRow,
  events: readonly ApiObject[],
  held: ReadonlyMap<string, string>,
  isHostHeld: boolean,
): readonly string[] {
  const advice = kind === 'MongoDB' ? [...memberAdvice(object, status, held)] : [];
  const { name } = object.metadata;
  const blocked = status.conditions?.find((c) => c.type === 'Blocked' && c.status === 'True');
  if (blocked !== undefined) advice.push(`  ${inLine(blocked.message)}`);
  if (kind === 'Host' && !isHostHeld && (object.status as HostStatus | undefined)?.connected !== true)
    advice.push(`  start its agent there, or let it join:   belay host token ${name}`);
  if (kind === 'Operation' && status.finishedAt === undefined) {
    advice.push(`  follow it:   belay wait operation ${name}`);
    if (status.cancellable !== false && status.cancelRequested !== true)
      advice.push(`  stop it:   belay cancel ${name}`);
  }
  if (status.windowOverride !== undefined)
    advice.push(`  let changes wait for the windows again:   belay override-windows ${name} --end`);
  if (kind === 'MongoDB' && status.phase === 'Ready') advice.push(`  connect:   belay connect ${name}`);
  if (kind === 'MongoDB' && status.phase === 'Suspended')
    advice.push(`  bring it back:   belay resume ${name}`);
  const again = `belay events ${kind.toLowerCase()} ${name}`;
  if (events.length >= Number(EVENTS)) advice.push(`  more of the story:   ${again}`);
  return advice.length === 0 ? [] : ['What you can do', ...advice];
}

/** About members that are not well, by host, and about sets that cannot do without them. */
function memberAdvice(
  object: ApiObject,
  status: StatusRow,
  held: ReadonlyMap<string, string>,
): readonly string[] {
  const advice: string[] = [];
  const members = (status.members ?? []).filter((m) => m.hostName !== undefined && !held.has(m.name));
  const silent = members.filter((m) => m.health === 'unknown' && m.stage === 'active');
  const stuck = (status.replicaSets ?? []).filter(isStuck).map((set) => set.name);
  const deleting = object.metadata.deletionTimestamp !== undefined;
  for (const host of new Set(silent.map((m) => m.hostName))) {
    advice.push(`  host ${host} does not answer: is it up, and its agent?   belay describe host ${host}`);
    advice.push(`    on ${host}:   systemctl status belay-agent`);
    advice.push(`    it is being repaired:   belay maintenance create --host ${host} --duration 2h`);
    if (deleting) advice.push('    the deletion goes on when it is back');
    // A new member gets its place by a vote: of a set without a majority none can be replaced.
    else
      for (const m of members.filter((m) => m.hostName === host && !stuck.includes(m.replicaSet ?? '')))
        advice.push(`    it is gone for good:   belay replace ${object.metadata.name} ${m.name}`);
  }
  const isSilent = (set: string): boolean => silent.some((m) => m.replicaSet === set);
  for (const set of deleting ? [] : stuck.filter(isSilent))
    advice.push(
      `  ${set} has no majority that is known: bring its members back; without one nobody can be replaced`,
    );
  for (const m of members.filter((m) => m.health === 'unhealthy' && !deleting))
    advice.push(
      `  ${m.name} ${unwell(object.metadata.name, m)}${m.serviceId === undefined ? '' : `; its log: services/${m.serviceId}/mongod.log below the data folder of the agent on host ${m.hostName}`}`,
    );
  return advice;
}

/** What its agent does about a member that is not well, or a person can. */
function unwell(cluster: string, { name, state = 'DOWN' }: MemberRow): string {
  if (state === 'DOWN') return 'is DOWN: the agent starts it again by itself';
  if (state !== 'STARTUP') return `runs as ${state} and is not well`;
  return `runs and does not answer; if it stays so: belay replace ${cluster} ${name}`;
}

/** As far as is known it can elect nobody, and so change nothing about its members. */
const isStuck = ({ voters = 0, healthyVoters = 0, majority = 0, primary }: SetRow): boolean =>
  voters > 0 && primary === undefined && healthyVoters < majority;

function eventLines(events: readonly ApiObject[], now: number): readonly string[] {
  if (events.length === 0) return [];
  const { rows } = rowsOf('Event', events, false, false, now);
  return [
    'Events',
    table(
      null,
      rows.map((r) => [`  ${r[0]}`, ...r.slice(1)]),
    ),
  ];
}
