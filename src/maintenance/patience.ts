/**
 * What waits keeps its place before less urgent requests only as long as somebody wants it. Whoever wants it asks again when
 * told to; whoever does not has forgotten it, or has died (C3.1, C6.4). No lock is involved: what is held ends with its
 * deadline, and what was forgotten may be asked for again at any time.
 */
import type { Millis } from '../base/units.ts';
import { ASKS_AGAIN_WITHIN, DEFAULT_RETRY } from './limits.ts';
import type { Entry } from './types.ts';

/** Until when its pending actions keep their place; an entry of an older version has none written down. */
export const askByOf = ({ askBy, refreshedAt }: Pick<Entry, 'askBy' | 'refreshedAt'>): Millis =>
  askBy ?? refreshedAt + DEFAULT_RETRY + ASKS_AGAIN_WITHIN;

/** Somebody asked, and was told when to ask again. */
export function heard<T extends Pick<Entry, 'stale'>>(entry: T, told: Millis): T & { askBy: Millis } {
  const { stale: _, ...rest } = entry;
  return { ...(rest as T), askBy: told + ASKS_AGAIN_WITHIN };
}

/** Something it held has ended, or its owner was heard of: there is time to ask again, and no less than there was. */
export function stirred(entry: Entry, at: Millis): Entry {
  return entry.pending.length === 0
    ? entry
    : { ...entry, askBy: Math.max(askByOf(entry), at + ASKS_AGAIN_WITHIN) };
}

/** When it is forgotten unless somebody asks; infinite while it holds something, or when it is forgotten already. */
export const forgottenAt = (entry: Entry): Millis =>
  entry.pending.length === 0 || entry.held.length > 0 || entry.stale === true
    ? Number.POSITIVE_INFINITY
    : askByOf(entry);
