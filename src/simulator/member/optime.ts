/**
 * A place in the replicated log: `t` is the term (-1 before the first election), `s` and `i` are seconds and increment of
 * the timestamp. Plain numbers, so that states can be compared, printed and digested.
 */
export interface OpTime {
  readonly t: number;
  readonly s: number;
  readonly i: number;
}

/** What a member has: its newest operation (null: nothing usable) and the wall clock written in it. */
export interface Position {
  readonly op: OpTime | null;
  readonly wall: number;
}

/** The position of a member that has nothing. */
export const NOWHERE: Position = { op: null, wall: 0 };

/** Orders by term, then timestamp; null is before everything. */
export function compareOpTimes(a: OpTime | null, b: OpTime | null): number {
  if (a === null || b === null) return (a === null ? 0 : 1) - (b === null ? 0 : 1);
  return a.t - b.t || a.s - b.s || a.i - b.i;
}

/** Same place in the log. */
export const sameOpTime = (a: OpTime | null, b: OpTime | null): boolean => compareOpTimes(a, b) === 0;

/** `a` is at `b` or after it. */
export const reached = (a: OpTime | null, b: OpTime | null): boolean => compareOpTimes(a, b) >= 0;

/** The later of two. */
export const laterOpTime = (a: OpTime | null, b: OpTime | null): OpTime | null => (reached(a, b) ? a : b);

/** The earlier of two. */
export const earlierOpTime = (a: OpTime | null, b: OpTime | null): OpTime | null => (reached(a, b) ? b : a);

/** The server's text form, used in vote reasons and reconfig refusals. */
export function opTimeText(op: OpTime | null): string {
  const { s, i, t } = op ?? { s: 0, i: 0, t: -1 };
  return `{ ts: Timestamp(${s}, ${i}), t: ${t} }`;
}
