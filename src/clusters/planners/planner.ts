/** What every planner gets and gives. */
import type { Millis } from '../../base/units.ts';
import type { BlockReason, Decision, Reason, Step, WaitReason } from '../decisions.ts';
import type { MemberView } from '../interpret.ts';
import { REQUEUE_PENDING, RETRY_CAP } from '../limits.ts';
import { retryOf } from '../state.ts';
import type { Desired, Observed, RetryState, State } from '../types.ts';

/** One reading with everything derived from it once. */
export interface Scene {
  readonly observed: Observed;
  readonly desired: Desired;
  readonly state: State;
  readonly now: Millis;
  readonly all: readonly MemberView[];
}

/**
 * A planner looks at one concern. It returns nothing when its concern is settled. `barrier`: later planners must not
 * act while this one is not settled. A wait without a barrier hides nothing (house rules, section 3).
 */
export interface Verdict {
  readonly decisions: readonly Decision[];
  readonly barrier: boolean;
}
export type Planner = (scene: Scene) => Verdict | null;

export const act = (because: Reason, steps: readonly Step[], detail: string): Decision => ({
  kind: 'act',
  steps,
  because,
  detail,
});

export const wait = (on: WaitReason, until: Millis, detail: string, member?: string): Decision => ({
  kind: 'wait',
  on,
  until,
  detail,
  ...(member === undefined ? {} : { member }),
});

export const blocked = (
  by: BlockReason,
  needs: 'person' | 'spec' | 'capacity',
  detail: string,
  fix: string,
): Extract<Decision, { kind: 'blocked' }> => ({
  kind: 'blocked',
  by,
  needs,
  detail,
  fix,
});

/** Until when to wait for something that an event will most likely announce sooner (A7.2). */
export const soon = (scene: Scene): Millis => scene.now + REQUEUE_PENDING;

/** No wait is longer than the cap: one that seems to be was begun on a clock that was set back since. */
export const isDue = ({ nextTryAt }: { readonly nextTryAt: Millis }, now: Millis): boolean =>
  nextTryAt <= now || nextTryAt - now > RETRY_CAP;

/** A3: the wait for an action's next try, or null when it may be tried now. */
export function backingOff(scene: Scene, action: string, target: string): Decision | null {
  const retry = retryOf(scene.state, action, target);
  if (retry === null || isDue(retry, scene.now)) return null;
  if (retry.refused !== undefined) return helpNeeded(scene, action, target) ?? refusedFor(retry);
  const times = retry.failures === 1 ? 'failed once' : `failed ${retry.failures} times`;
  return wait('Backoff', retry.nextTryAt, `${action} of ${target} ${times}: ${saidOf(retry)}`, target);
}

/** What went wrong, behind words that name the member already. */
export const saidOf = ({ member, message }: Pick<RetryState, 'member' | 'message'>): string =>
  message.startsWith(`${member} `) ? `it${message.slice(member.length)}` : message;

/** `runs for 3 s` would change the status with every look. */
export const withoutClock = (text: string): string => text.replace(/ runs for [^:]*/, ' runs');

/** Said once for good; asked again when something looks different (`refusals.ts`). */
const refusedFor = (retry: RetryState): Decision =>
  blocked(
    'Refused',
    'person',
    `${retry.action} of ${retry.member} was refused: ${saidOf(retry)}`,
    'correct the spec or what it is about; it is tried again at any change, at the latest in ten minutes',
  );

/** Failures with these codes need somebody, though we go on trying: what is said of them. */
const NEEDS_HELP: Readonly<
  Record<
    string,
    { readonly by: BlockReason; readonly needs: 'person' | 'spec' | 'capacity'; readonly fix: string }
  >
> = {
  PortTaken: { by: 'PortTaken', needs: 'spec', fix: 'free the port, or choose another with spec.port' },
  NoExecutables: {
    by: 'NoExecutables',
    needs: 'person',
    fix: 'install the version on the host, or give the agent --bin-dir with it',
  },
  OwnershipConflict: {
    by: 'OwnershipConflict',
    needs: 'person',
    fix: 'move the foreign service or volume away, or choose another cluster name',
  },
  ForeignData: {
    by: 'ForeignData',
    needs: 'person',
    fix: 'move that data folder away, or point the member at an empty volume',
  },
  VolumeNotFound: {
    by: 'VolumeLost',
    needs: 'person',
    fix: 'bring the volume back to its host, or replace the member',
  },
  DataIsNewer: {
    by: 'VersionStep',
    needs: 'spec',
    fix: 'set spec.version to one of the series that has run on its data',
  },
  DiskFull: {
    by: 'DiskFull',
    needs: 'capacity',
    fix: 'free or add disk space on the host; nothing was lost',
  },
};

/** The way out of a failure with this code. */
export const fixOf = (code: 'DiskFull'): string => NEEDS_HELP[code]?.fix ?? '';

/** The block that a failing action amounts to, when its code says that waiting alone will not help. */
export function helpNeeded(scene: Scene, action: string, target: string): Decision | null {
  const retry = retryOf(scene.state, action, target);
  return retry === null ? null : helpFor(scene, retry.code, target, retry.message);
}

/** The same for a failure that is seen and was no action of ours. */
export function helpFor(scene: Scene, code: string, target: string, detail: string): Decision | null {
  const help = NEEDS_HELP[code];
  if (help === undefined) return null;
  const verb = help.by === 'VolumeLost' ? `: belay replace ${scene.desired.name} ${target}` : '';
  return blocked(help.by, help.needs, detail, `${help.fix}${verb}`);
}

/** Several acts that do not touch each other as one: sets of a cluster come up side by side. */
export function together(decisions: readonly (Decision | null)[]): readonly (Decision | null)[] {
  const acts = decisions.filter((d) => d?.kind === 'act');
  const first = acts[0];
  if (first === undefined || acts.length === 1) return decisions;
  const all = act(
    first.because,
    acts.flatMap((a) => a.steps),
    acts.map((a) => a.detail).join(', '),
  );
  return [all, ...decisions.filter((d) => d?.kind !== 'act')];
}

/** A verdict when there is anything to say. */
export function verdict(decisions: readonly (Decision | null)[], barrier: boolean): Verdict | null {
  const some = decisions.filter((d): d is Decision => d !== null);
  return some.length === 0 ? null : { decisions: some, barrier };
}

/** The set took a configuration that no reading shows yet. */
export const behind = (scene: Scene, set: string): Decision =>
  wait('ObservationStale', soon(scene), `${set} has a newer configuration than the last reading shows`);
