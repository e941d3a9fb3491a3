/** Maintenance windows (C7.1): when voluntary disruption may happen, and when it may next. */
import { Cron } from 'croner';
import type { Millis } from '../base/units.ts';
import type { Desired, State, WindowOverride } from './types.ts';

/** One window of the spec: it opens by a cron line in its zone and stays open for so long. */
export interface DesiredWindow {
  readonly cron: string;
  readonly timeZone: string;
  readonly durationMillis: Millis;
  /** As people say it: `Sat 02:00 for 2 h, Europe/Prague`. */
  readonly text: string;
}

/** `open`: until then. `closed`: the window that opens next, and when. */
export type WindowState =
  | { readonly kind: 'open'; readonly until: Millis }
  | { readonly kind: 'closed'; readonly opensAt: Millis; readonly text: string };

/** Without windows it is always open. A cron line that never comes again leaves it closed for a year at a time. */
export function windowAt(windows: readonly DesiredWindow[], now: Millis): WindowState {
  if (windows.length === 0) return { kind: 'open', until: Number.POSITIVE_INFINITY };
  const all = windows.map((window) => ({ window, at: startAfter(window, now - window.durationMillis) }));
  const open = all.filter(({ at }) => at <= now).map(({ window, at }) => at + window.durationMillis);
  if (open.length > 0) return { kind: 'open', until: Math.max(...open) };
  const next = all.reduce((a, b) => (a.at <= b.at ? a : b));
  return { kind: 'closed', opensAt: next.at, text: next.window.text };
}

const YEAR: Millis = 366 * 24 * 3_600_000;

/** The first opening after a moment. */
function startAfter(window: DesiredWindow, after: Millis): Millis {
  const next = cronOf(window).nextRun(new Date(after));
  return next === null ? after + window.durationMillis + YEAR : next.getTime();
}

const crons = new Map<string, Cron>();
/** Cron lines kept ready; there are few different ones. */
const MOST_CRONS = 200;

function cronOf({ cron, timeZone }: DesiredWindow): Cron {
  const key = `${timeZone} ${cron}`;
  const known = crons.get(key);
  if (known !== undefined) return known;
  if (crons.size >= MOST_CRONS) crons.clear();
  const made = new Cron(cron, { timezone: timeZone, paused: true });
  crons.set(key, made);
  return made;
}

/** The override of a person that lets changes go on outside the windows now; null: none does. */
export function activeOverride(
  { windows }: Pick<Desired, 'windows'>,
  { windowOverride }: Pick<State, 'windowOverride'>,
  now: Millis,
): WindowOverride | null {
  return windows.length > 0 && windowOverride != null && now < windowOverride.until ? windowOverride : null;
}

/** Why a voluntary disruption has to wait now; null: it may go on. An override of a person opens for its time. */
export function closedWindow(
  desired: Pick<Desired, 'windows'>,
  state: Pick<State, 'windowOverride'>,
  now: Millis,
): Extract<WindowState, { readonly kind: 'closed' }> | null {
  if (activeOverride(desired, state, now) !== null) return null;
  const at = windowAt(desired.windows, now);
  return at.kind === 'closed' ? at : null;
}
