/** What happened to a task, as events of its object: who, what, and with which mode. */
import type { Millis } from '../base/units.ts';
import type { NewEvent } from '../engine/ports.ts';
import type { Action, Entry, Permission } from '../maintenance/index.ts';
import { DEFAULT_NAMESPACE } from '../model/index.ts';
import { TASK_KIND, type TaskPlace } from './ledger.ts';

/** Names in one message. */
const SHOWN = 5;

const nameOf = ({ scope }: Action): string => {
  if (scope.kind === 'host') return `host ${scope.host}`;
  if (scope.kind === 'node') return scope.node;
  return scope.disks
    .map((d) =>
      d.kind === 'id'
        ? `disk ${d.disk} of ${d.node}`
        : d.kind === 'path'
          ? `disk ${d.path} of ${d.host}`
          : `vdisk of ${d.node}`,
    )
    .join(', ');
};

const listText = (held: readonly Pick<Permission, 'action'>[]): string => {
  const names = held.slice(0, SHOWN).map((p) => nameOf(p.action));
  return held.length > SHOWN ? `${names.join(', ')} and ${held.length - SHOWN} more` : names.join(', ');
};

/** New grants were switched off or on for everybody. */
export function switchEvent(off: boolean, by: string, at: Millis): NewEvent {
  const who = by === '' ? '' : ` by ${by}`;
  return {
    namespace: DEFAULT_NAMESPACE,
    regarding: { kind: TASK_KIND, name: 'switch', uid: 'maintenance-switch' },
    type: off ? 'Warning' : 'Normal',
    reason: off ? 'MaintenanceSwitchedOff' : 'MaintenanceSwitchedOn',
    message: off ? `nothing new is granted: switched off${who}` : `granted again: switched on${who}`,
    at,
  };
}

/**
 * Grants, ends and expiries between two states of an entry. Force is a warning: it asks for nobody's availability. `by`: who
 * asked for what happened; empty when nobody did, or it is not known.
 */
export function eventsOf(
  place: TaskPlace,
  before: Entry | null,
  after: Entry | null,
  now: Millis,
  by = '',
): readonly NewEvent[] {
  const entry = after ?? before;
  if (entry === null) return [];
  const had = new Set(before?.held.map((p) => p.id));
  const has = new Set(after?.held.map((p) => p.id));
  const granted = (after?.held ?? []).filter((p) => !had.has(p.id));
  const ended = (before?.held ?? []).filter((p) => !has.has(p.id));
  const expired = ended.filter((p) => p.deadline !== null && p.deadline <= now);
  const done = ended.filter((p) => !expired.includes(p));
  const force = entry.mode === 'force';
  const event = (type: NewEvent['type'], reason: string, message: string): NewEvent => ({
    namespace: place.key.namespace,
    regarding: { kind: place.key.kind, name: place.key.name, uid: place.uid },
    type,
    reason,
    message,
    at: now,
  });
  const forgotten = after?.stale === true && before?.stale !== true;
  const waited = before?.pending ?? [];
  const ends = granted.length === 0 && expired.length === 0;
  const dropped = ends && (after?.pending ?? []).length === 0 ? waited : [];
  const who = by === '' ? '' : ` by ${by}`;
  const whose = by === '' || by === entry.owner ? '' : ` (owner ${entry.owner})`;
  const because = entry.description === '' ? '' : ` (${entry.description})`;
  return [
    ...(granted.length === 0
      ? []
      : [
          event(
            force ? 'Warning' : 'Normal',
            force ? 'MaintenanceForced' : 'MaintenanceGranted',
            `${entry.owner} took ${listText(granted)} in mode ${entry.mode}${because}`,
          ),
        ]),
    ...(done.length === 0
      ? []
      : [event('Normal', 'MaintenanceCompleted', `given back${who}: ${listText(done)}${whose}`)]),
    ...(dropped.length === 0
      ? []
      : [
          event(
            'Normal',
            'MaintenanceDropped',
            `not waited for any more, dropped${who}: ${listText(dropped)}${whose}`,
          ),
        ]),
    ...(expired.length === 0
      ? []
      : [event('Warning', 'MaintenanceExpired', `past their deadline and free again: ${listText(expired)}`)]),
    ...(forgotten
      ? [
          event(
            'Warning',
            'MaintenanceForgotten',
            `nobody has asked again: what ${entry.owner} waits for holds nobody back until it is refreshed`,
          ),
        ]
      : []),
  ];
}
