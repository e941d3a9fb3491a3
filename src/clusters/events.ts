/** What happened between two statuses (A7.5). A warning is something that nobody asked for. */
import { formatDuration, type Millis } from '../base/units.ts';
import type { MemberStatus, MongoDBStatus } from '../model/kinds/mongodbStatus.ts';

export interface EventDraft {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}

/** What happened between two statuses, in sentences for `belay events`. `ours`: members it was our doing for (`causedByUs`). */
export function eventsFor(
  before: MongoDBStatus | null,
  after: MongoDBStatus,
  now: Millis,
  ours: ReadonlySet<string> = new Set(),
): readonly EventDraft[] {
  const events: EventDraft[] = [];
  if (after.primary !== undefined && before?.primary !== after.primary) {
    const from = before?.primary === undefined ? '' : ` (was ${before.primary})`;
    events.push({ type: 'Normal', reason: 'PrimaryElected', message: `${after.primary} is primary${from}` });
  }
  const blocked = after.conditions.find((c) => c.type === 'Blocked');
  const was = before?.conditions.find((c) => c.type === 'Blocked');
  if (blocked?.status === 'True' && (was?.status !== 'True' || was.reason !== blocked.reason)) {
    events.push({ type: 'Warning', reason: blocked.reason, message: blocked.message });
  }
  const space = after.conditions.find((c) => c.type === 'DiskSpace');
  if (space?.status === 'False' && before?.conditions.find((c) => c.type === 'DiskSpace')?.status !== 'False')
    events.push({ type: 'Warning', reason: 'DiskSpaceLow', message: space.message });
  events.push(...operationEvents(before, after), ...overrideEvents(before, after));
  events.push(...memberEvents(before, after, ours));
  // What it amounts to comes last: events are read from above, causes before their sum.
  if (before?.phase !== after.phase && after.phase !== undefined) {
    const bad = after.phase === 'Degraded' || after.phase === 'Failed';
    const took = after.phase === 'Ready' && before !== null ? readyAfter(before, now) : '';
    events.push({
      type: bad ? 'Warning' : 'Normal',
      reason: after.phase,
      message: `${after.message ?? ''}${took}`,
    });
  }
  return events;
}

/**
 * A13.1: an operation begins, and how it ended, with who asked for it. Known by its uid and by how it stood in the status before,
 * which is written along with the event: once each, whichever control plane looks.
 */
function operationEvents(before: MongoDBStatus | null, after: MongoDBStatus): readonly EventDraft[] {
  return (after.operations ?? []).flatMap((operation): EventDraft[] => {
    const { uid, name, type, state, message, requestedBy } = operation;
    const was = before?.operations?.find((o) => o.uid === uid)?.state;
    // What an override lets happen, and until when, is an event of its own.
    if (was === state || (type === 'OverrideWindows' && state === 'Succeeded')) return [];
    const who = requestedBy === undefined ? '' : ` (asked for by ${requestedBy})`;
    const what = `${type} ${name}${who}`;
    if (state === 'Running')
      return [{ type: 'Normal', reason: 'OperationStarted', message: `${what} begins` }];
    const how = message === undefined ? what : `${what}: ${message}`;
    return [{ type: state === 'Failed' ? 'Warning' : 'Normal', reason: `Operation${state}`, message: how }];
  });
}

/** C7.1: changes go on outside the windows, who wanted that and why; and they do so no more. */
function overrideEvents(before: MongoDBStatus | null, after: MongoDBStatus): readonly EventDraft[] {
  const [was, is] = [before?.windowOverride, after.windowOverride];
  if (is !== undefined && is.operation !== was?.operation) {
    const who = is.requestedBy === undefined ? '' : `${is.requestedBy}: `;
    const message = `changes do not wait for the maintenance windows until ${is.until} (${who}${is.reason ?? is.operation})`;
    return [{ type: 'Normal', reason: 'WindowsOverridden', message }];
  }
  if (was === undefined || is !== undefined) return [];
  const message = `changes wait for the maintenance windows again (${was.operation} is over)`;
  return [{ type: 'Normal', reason: 'WindowsOverrideEnded', message }];
}

function readyAfter(before: MongoDBStatus, now: Millis): string {
  const since = before.conditions.find((c) => c.type === 'Ready')?.lastTransitionTime;
  return since === undefined ? '' : ` after ${formatDuration(Math.max(0, now - Date.parse(since)))}`;
}

function memberEvents(
  before: MongoDBStatus | null,
  after: MongoDBStatus,
  ours: ReadonlySet<string>,
): EventDraft[] {
  const events: EventDraft[] = [];
  // Members that end because the set is being deleted end as they should.
  if (after.phase === 'Deleting') return events;
  for (const member of after.members) {
    const old = before?.members.find((m) => m.name === member.name);
    events.push(...replacementEvents(old, member, after));
    // A member that leaves ends because it is to.
    if (old === undefined || old.health === member.health || member.stage === 'removing') continue;
    if (member.health === 'healthy')
      events.push({ type: 'Normal', reason: 'MemberHealthy', message: `${member.name} is ${member.state}` });
    else if (old.health === 'healthy') {
      const kept = member.maintenance !== undefined;
      const bad = member.health === 'unknown' ? 'MemberUnreachable' : 'MemberUnhealthy';
      const wanted = ours.has(member.name);
      const reason = kept ? 'MemberInMaintenance' : wanted ? 'MemberInterrupted' : bad;
      const said = member.message ?? `is ${member.state ?? 'unknown'}`;
      const message = names(said, member.name) ? said : `${member.name} ${said}`;
      events.push({ type: kept || wanted ? 'Normal' : 'Warning', reason, message });
    }
  }
  return events;
}

/** Most sentences about a member name it already, `restart of orders-1 waits` for one. */
const names = (said: string, member: string): boolean => said.split(/[\s,:;()]+/).includes(member);

/** A13.3: a member is on its way to another's place, and it has it. */
function replacementEvents(
  old: MemberStatus | undefined,
  member: MemberStatus,
  after: MongoDBStatus,
): EventDraft[] {
  const { name, replaces } = member;
  if (replaces !== undefined && old?.replaces === undefined)
    return [{ type: 'Normal', reason: 'Replacing', message: `${name} is made to replace ${replaces}` }];
  if (replaces !== undefined || old?.replaces === undefined || member.stage === 'removing') return [];
  if (after.members.some((m) => m.name === old.replaces)) return [];
  return [{ type: 'Normal', reason: 'Replaced', message: `${name} has the place of ${old.replaces}` }];
}
