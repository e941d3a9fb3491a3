import type { Decision } from '../decisions.ts';
import {
  configOf,
  configRowOf,
  doubterOf,
  hasEnded,
  isHealthy,
  isIrreplaceable,
  isStopping,
  type MemberView,
  majority,
  quorumOf,
  stateOf,
} from '../interpret.ts';
import { groupsOf, isRouter } from '../topology.ts';
import type { DesiredMember, MemberRole } from '../types.ts';
import { blocked, type Scene, soon, wait } from './planner.ts';

/** Without a primary nobody tells who votes, so anybody may. Of routers each counts. */
const hasVote = (view: MemberView, members: readonly MemberView[]): boolean =>
  configOf(members) === null || configRowOf(view, members)?.votes === 1;

/** However well all others are, the set has no majority without it: it is one of one or two voters, or the only router (S1). */
export function isIndispensable(view: MemberView, members: readonly MemberView[]): boolean {
  const { voters, needed } = quorumOf(members);
  return hasVote(view, members) && voters - 1 < needed;
}

/** Nobody else of the set could be primary, whoever is well. */
export function leadsAlone(view: MemberView, members: readonly MemberView[]): boolean {
  const [config, row] = [configOf(members), configRowOf(view, members)];
  return config !== null && row !== null && isIrreplaceable(config, row);
}

/** Healthy voters without this one, and whether that is enough. A member without a vote costs none. */
export function votesWithout(view: MemberView, members: readonly MemberView[]) {
  const quorum = quorumOf(members);
  const left = quorum.healthyVoters - (isHealthy(view, members) && hasVote(view, members) ? 1 : 0);
  return { ...quorum, left, enough: left >= quorum.needed };
}

/**
 * Others that cannot be counted on now: unwell, or not seen to be well by one of their healthy peers (ROL-07). Who is not in the
 * set yet is counted on by nobody, and may be waiting for the end of just this (A13.6).
 */
export function unwellBeside(view: MemberView, members: readonly MemberView[]): readonly MemberView[] {
  const config = configOf(members);
  const isIn = (v: MemberView): boolean => config === null || configRowOf(v, members) !== null;
  return members.filter(
    (v) => v !== view && isIn(v) && (!isHealthy(v, members) || doubterOf(v, members) !== null),
  );
}

/** Who is waited for, each with what it lacks: among healthy voters a name alone would not say (L3). */
export const lacking = (sick: readonly MemberView[], members: readonly MemberView[]): string =>
  sick.map((view) => `${view.member.name} (${lackOf(view, members)})`).join(', ');

function lackOf(view: MemberView, members: readonly MemberView[]): string {
  if (view.facts === null) return 'not reported';
  if (hasEnded(view)) return 'down';
  if (isStopping(view)) return 'being stopped';
  if (view.database === null) return 'not answering';
  const doubter = isHealthy(view, members) ? doubterOf(view, members) : null;
  if (doubter !== null) return `${doubter.member.name} does not see it yet`;
  if (isRouter(view.member)) return 'does not reach the config servers';
  return stateOf(view) === 'SECONDARY' ? 'not caught up' : (stateOf(view) ?? 'state unknown');
}

/**
 * S1, C2.5 strong: all others healthy, and a majority of voters stays. Where no majority can stay, whoever is well, waiting
 * does not help: the spec allows the interruption, or wants more voters, or a person has to decide.
 */
export function mayGoDown(scene: Scene, view: MemberView, members: readonly MemberView[]): Decision | null {
  const { name } = view.member;
  const sick = unwellBeside(view, members);
  if (sick.length === 0 && isIndispensable(view, members))
    return scene.desired.interruption ? null : interruption(scene, view, members);
  const { left, enough, healthyVoters, voters, needed } = votesWithout(view, members);
  if (sick.length === 0 && enough) return null;
  const who = lacking(sick, members);
  const why =
    who === '' ? `restart of ${name} would leave ${left} of them` : `restart of ${name} waits for ${who}`;
  return wait(
    'WouldLoseMajority',
    soon(scene),
    `${why}: healthy voters ${healthyVoters} of ${voters}, majority ${needed}`,
    name,
  );
}

/** How a group of one gets another. */
const MORE: Readonly<Record<MemberRole, string>> = {
  replicaSet: 'add members',
  shardServer: 'raise spec.mongodsPerShardCount',
  configServer: 'raise spec.configServerCount',
  router: 'raise spec.mongosCount',
};

function interruption(scene: Scene, view: MemberView, members: readonly MemberView[]): Decision {
  const { name } = view.member;
  const { voters } = quorumOf(members);
  const wanted = wantedOf(scene, view).filter((m) => m.votes === 1).length;
  const needed = isRouter(view.member) ? 1 : majority(wanted);
  if (wanted > voters && wanted - 1 >= needed) {
    const detail = `restart of ${name} waits until the set has ${wanted} voters: it has ${voters} and can spare none`;
    return wait('WouldLoseMajority', soon(scene), detail, name);
  }
  const [what, cure] =
    members.length === 1
      ? [
          `${name} is the only ${isRouter(view.member) ? 'router' : 'member'}: working on it stops the database`,
          MORE[view.member.role],
        ]
      : voters === 1
        ? [`${name} is the only member with a vote: working on it stops the database`, 'add voting members']
        : [`${name} is one of ${voters} voters: without it nobody is elected`, 'add a voting member'];
  return blocked('WouldInterrupt', 'spec', what, `set spec.maintenance.interruption: Allowed, or ${cure}`);
}

/** S3: who leads has nobody to hand over to now. Where nobody ever could, the spec has to say who else may. */
export function withoutHeir(scene: Scene, view: MemberView, members: readonly MemberView[]): Decision {
  const { name } = view.member;
  const detail = `${name} is primary and no caught-up secondary could take over`;
  return noSuccessor(scene, view, members) ?? wait('NoElectableSecondary', soon(scene), detail);
}

function noSuccessor(scene: Scene, view: MemberView, members: readonly MemberView[]): Blocked | null {
  const able = wantedOf(scene, view).filter((m) => m.votes === 1 && m.priority > 0).length;
  if (!leadsAlone(view, members) || able > 1) return null;
  return blocked(
    'WouldInterrupt',
    'spec',
    `${view.member.name} is the only member that could be primary: nobody can take over while it restarts`,
    'give another member a vote and a priority above 0 in spec.memberConfig',
  );
}

type Blocked = Extract<Decision, { readonly kind: 'blocked' }>;

/** Why this member can never be restarted as the spec is now; null: it can, be it later. */
export function neverSpared(scene: Scene, view: MemberView, members: readonly MemberView[]): Blocked | null {
  if (!isIndispensable(view, members)) return noSuccessor(scene, view, members);
  const decision = scene.desired.interruption ? null : interruption(scene, view, members);
  return decision?.kind === 'blocked' ? decision : null;
}

const wantedOf = ({ desired }: Scene, { member }: MemberView): readonly DesiredMember[] =>
  groupsOf(desired).find((g) => g.name === member.replicaSet)?.component.members ?? [];
