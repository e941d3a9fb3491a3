import { type ApiList, type ApiObject, objectPath } from '../client.ts';
import { type Context, pluralOf } from '../context.ts';
import { age, asText, table } from '../output.ts';
import { lag, rowsOf, type StatusRow, statusOf } from '../rows.ts';

/** `belay describe KIND NAME`: everything a person at three in the morning wants, with the way out. */
export async function describe(context: Context, kindName: string, name: string): Promise<void> {
  const { plural, kind } = pluralOf(kindName);
  const path = objectPath(plural, context.namespace, name);
  const object = await context.client.get<ApiObject>(path);
  const events = await context.client.get<ApiList>(`${path}/events`, { limit: '15' });
  if (context.output === 'json' || context.output === 'yaml') {
    context.terminal.out(asText({ object, events: events.items }, context.output));
    return;
  }
  context.terminal.out(describeText(kind, object, events.items, context.now()));
}

/** The text of a description. */
export function describeText(
  kind: string,
  object: ApiObject,
  events: readonly ApiObject[],
  now: number,
): string {
  const status = statusOf(object);
  const { metadata } = object;
  const lines = [
    `Name         ${metadata.name}`,
    `Namespace    ${metadata.namespace}`,
    `Kind         ${kind}`,
    `Created      ${metadata.creationTimestamp} (${age(metadata.creationTimestamp, now)} ago)`,
    `Generation   ${metadata.generation}${status.observedGeneration === metadata.generation ? '' : ` (observed ${status.observedGeneration ?? 'none'})`}`,
    `Phase        ${status.phase ?? 'Pending'}${status.message ? `: ${status.message}` : ''}`,
  ];
  if (status.connectionString) lines.push(`Connect      ${status.connectionString}`);
  for (const warning of status.warnings ?? []) lines.push(`Warning      ${warning}`);
  lines.push(
    ...conditionLines(status),
    ...memberLines(status, now),
    ...adviceLines(object, status),
    ...eventLines(events, now),
  );
  return lines.join('\n');
}

function conditionLines(status: StatusRow): readonly string[] {
  const conditions = status.conditions ?? [];
  if (conditions.length === 0) return [];
  const rows = conditions.map((c) => [`  ${c.type}`, c.status, c.reason, c.message]);
  return ['Conditions', ...table(['  TYPE', 'STATUS', 'REASON', 'MESSAGE'], rows).split('\n').slice(1)];
}

function memberLines(status: StatusRow, now: number): readonly string[] {
  const members = status.members ?? [];
  if (members.length === 0) return [];
  const rows = members.map((m) => [
    `  ${m.name}`,
    m.state ?? '–',
    m.health ?? 'unknown',
    m.version ?? '–',
    m.configVersion === undefined ? '–' : `config ${m.configVersion}`,
    m.hostName === undefined ? '–' : `host ${m.hostName}`,
    m.host === undefined ? '–' : `${m.host}:${m.port}`,
    m.lagMillis === undefined || m.state !== 'SECONDARY' ? '' : `lag ${lag(m.lagMillis)}`,
    m.lastSeen === undefined
      ? (m.message ?? '')
      : `agent last seen ${m.lastSeen.slice(11, 19)} (${age(m.lastSeen, now)} ago)`,
  ]);
  return [
    'Members',
    ...table(
      rows[0]!.map(() => ''),
      rows,
    )
      .split('\n')
      .slice(1),
  ];
}

/** What somebody can do now, from what is wrong. */
function adviceLines(object: ApiObject, status: StatusRow): readonly string[] {
  const advice: string[] = [];
  const unknown = (status.members ?? []).filter(
    (m) => m.health === 'unknown' && m.hostName !== undefined && m.stage === 'active',
  );
  for (const m of unknown)
    advice.push(`  host ${m.hostName}: is its agent running?   systemctl status belay-agent`);
  const blocked = status.conditions?.find((c) => c.type === 'Blocked' && c.status === 'True');
  if (blocked) advice.push(`  ${blocked.message}`);
  if (status.phase === 'Ready') advice.push(`  connect:   belay connect ${object.metadata.name}`);
  return advice.length === 0 ? [] : ['What you can do', ...advice];
}

function eventLines(events: readonly ApiObject[], now: number): readonly string[] {
  if (events.length === 0) return [];
  const { rows } = rowsOf('Event', events, false, false, now);
  return [
    'Events',
    ...table(
      ['', '', '', '', ''],
      rows.map((r) => [`  ${r[0]}`, ...r.slice(1)]),
    )
      .split('\n')
      .slice(1),
  ];
}
