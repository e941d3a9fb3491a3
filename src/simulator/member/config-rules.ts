import {
  compareConfigs,
  configText,
  isVoter,
  MAX_MEMBERS,
  MAX_VOTERS,
  type MemberConfig,
  majorityVotes,
  type ReplicaSetConfig,
  writableVoters,
} from './config.ts';

const LOCAL_HOST = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/;

function memberProblem(member: MemberConfig): string | null {
  const zero = (why: string): string | null =>
    member.priority !== 0 ? `priority must be 0 when ${why}` : null;
  if (member.arbiterOnly) {
    if (member.votes === 0) return 'Arbiter must vote (cannot have 0 votes)';
    if (member.priority !== 0) return 'Arbiter priority must be 0';
    if (Object.keys(member.tags).length > 0) return 'Cannot set tags on arbiters.';
    return null;
  }
  return (
    (member.votes === 0 ? zero('non-voting (votes:0)') : null) ??
    (member.secondaryDelaySecs > 0 ? zero('secondaryDelaySecs is used') : null) ??
    (member.hidden ? zero('hidden=true') : null) ??
    (member.buildIndexes ? null : zero('buildIndexes=false'))
  );
}

function duplicateProblem(members: readonly MemberConfig[]): string | null {
  for (const [a, first] of members.entries()) {
    for (const [b, second] of members.entries()) {
      if (b <= a) continue;
      if (first.id === second.id) {
        return `Found two member configurations with same _id field, members.${a}._id == members.${b}._id == ${first.id}`;
      }
      if (first.host === second.host) {
        return `Found two member configurations with same host field, members.${a}.host == members.${b}.host == ${first.host}`;
      }
    }
  }
  return null;
}

function horizonProblem(members: readonly MemberConfig[]): string | null {
  const names = (member: MemberConfig): string =>
    Object.keys(member.horizons ?? {})
      .sort()
      .join(',');
  const seen = new Set(members.map((member) => member.host));
  for (const member of members) {
    if (names(member) !== names(members[0]!)) {
      return 'Saw a replica set member with a different horizon mapping than the others';
    }
    for (const [name, host] of Object.entries(member.horizons ?? {})) {
      if (name === '__default') return 'Horizon name "__default" is reserved for internal mongodb usage';
      if (name === '') return 'Horizons cannot have empty names';
      if (/^\d+(\.\d+){3}(:\d+)?$/.test(host)) {
        return `Found split horizon configuration using IP "horizons.${name}", which is not supported`;
      }
      if (seen.has(host)) return `Duplicate horizon member found "${host}".`;
      seen.add(host);
    }
  }
  return null;
}

function configServerProblem(config: ReplicaSetConfig, startedAsConfigServer: boolean): string | null {
  if (config.configsvr !== startedAsConfigServer) {
    return startedAsConfigServer
      ? 'Nodes started with the --configsvr flag must have configsvr:true in their config'
      : 'Nodes being used for config servers must be started with the --configsvr flag';
  }
  if (!config.configsvr) return null;
  for (const member of config.members) {
    if (member.arbiterOnly)
      return 'Arbiters are not allowed in replica set configurations being used for config servers';
    if (!member.buildIndexes)
      return 'Members in replica set configurations being used for config servers must build indexes';
    if (member.secondaryDelaySecs > 0) {
      return 'Members in replica set configurations being used for config servers cannot have a non-zero secondaryDelaySecs';
    }
  }
  return null;
}

/** What is wrong with one configuration by itself, in the server's words; null: nothing. */
export function staticProblem(config: ReplicaSetConfig, startedAsConfigServer: boolean): string | null {
  const { members } = config;
  if (members.length < 1 || members.length > MAX_MEMBERS) {
    return `Replica set configuration contains ${members.length} members, but must have at least 1 and no more than  ${MAX_MEMBERS}`;
  }
  for (const member of members) {
    const problem = memberProblem(member);
    if (problem !== null) return problem;
  }
  const duplicate = duplicateProblem(members) ?? horizonProblem(members);
  if (duplicate !== null) return duplicate;
  const local = members.filter((member) => LOCAL_HOST.test(member.host)).length;
  if (local !== 0 && local !== members.length) {
    return `Either all host names in a replica set configuration must be localhost references, or none must be; found ${local} out of ${members.length}`;
  }
  const voting = members.filter((member) => member.votes > 0).length;
  if (voting < 1 || voting > MAX_VOTERS) {
    return `Replica set configuration contains ${voting} voting members, but must be at least 1 and no more than ${MAX_VOTERS}`;
  }
  if (!members.some((member) => !member.arbiterOnly && member.priority > 0)) {
    return 'Replica set configuration must contain at least one non-arbiter member with priority > 0';
  }
  return configServerProblem(config, startedAsConfigServer);
}

function identityProblem(old: ReplicaSetConfig, next: ReplicaSetConfig): string | null {
  if (old.setName !== next.setName) {
    return `New and old configurations differ in replica set name; old was ${old.setName}, and new is ${next.setName}`;
  }
  if (old.settings.replicaSetId !== next.settings.replicaSetId) {
    return `New and old configurations differ in replica set ID; old was ${old.settings.replicaSetId}, and new is ${next.settings.replicaSetId}`;
  }
  if (old.configsvr && !next.configsvr) {
    return 'New and old configurations differ in the value of configsvr, which cannot be removed';
  }
  for (const member of next.members) {
    for (const before of old.members) {
      const sameHost = before.host === member.host;
      if (before.id === member.id && !sameHost) continue;
      if (before.id !== member.id && sameHost) {
        return `New and old configurations both have members with host of ${member.host} but in the new configuration the _id field is ${member.id} and in the old configuration it is ${before.id} for replica set ${next.setName}`;
      }
      if (before.id !== member.id) continue;
      for (const field of ['buildIndexes', 'arbiterOnly'] as const) {
        if (before[field] !== member[field]) {
          return `New and old configurations differ in the setting of the ${field} field for member ${member.host}; to make this change, remove then re-add the member`;
        }
      }
    }
  }
  return null;
}

/** Ids that vote in exactly one of the two; newly added members do not vote yet in either. */
export function voterChanges(old: ReplicaSetConfig, next: ReplicaSetConfig): number {
  const before = new Set(old.members.filter(isVoter).map((member) => member.id));
  const after = new Set(next.members.filter((member) => member.votes > 0).map((member) => member.id));
  // A member that joins as a voter is newlyAdded in `next`; the server still counts it as the one change.
  for (const member of old.members) if (member.newlyAdded && after.has(member.id)) before.add(member.id);
  let changes = 0;
  for (const id of new Set([...before, ...after])) if (before.has(id) !== after.has(id)) changes++;
  return changes;
}

const PSA_RULE =
  'Rejecting reconfig where the new config has a PSA topology and the secondary is electable, but the old config contains ' +
  'only one writable node. Refer to https://docs.mongodb.com/manual/reference/method/rs.reconfigForPSASet/ for next steps on reconfiguring a PSA set.';

const isPsa = (config: ReplicaSetConfig): boolean =>
  config.members.length === 3 &&
  config.members.filter((member) => member.arbiterOnly).length === 1 &&
  config.members.filter((member) => member.votes > 0).length === 3;

function psaProblem(old: ReplicaSetConfig, next: ReplicaSetConfig): string | null {
  if (!isPsa(next)) return null;
  const electable = next.members.filter((member) => !member.arbiterOnly && member.priority > 0).length;
  if (electable < 2 || writableVoters(old) >= majorityVotes(next)) return null;
  return PSA_RULE;
}

/** What is wrong with going from `old` to `next`; null: nothing. The client sees it as 103. */
export function reconfigProblem(
  old: ReplicaSetConfig,
  next: ReplicaSetConfig,
  options: { readonly force: boolean; readonly configServer: boolean },
): string | null {
  const alone = staticProblem(next, options.configServer);
  if (alone !== null) return alone;
  if (compareConfigs(next, old) <= 0) {
    return `New replica set configuration version and term must be greater than old, but ${configText(next)} is not greater than ${configText(old)} for replica set ${next.setName}`;
  }
  const identity = identityProblem(old, next);
  if (identity !== null || options.force) return identity;
  if (voterChanges(old, next) > 1) {
    return 'Non force replica set reconfig can only add or remove at most 1 voting member.';
  }
  return psaProblem(old, next);
}

/** What makes a configuration unusable for replSetInitiate; null: nothing. The client sees it as 93. */
export function initiateProblem(config: ReplicaSetConfig, configServer: boolean): string | null {
  if (config.version !== 1) {
    return `Configuration used to initiate a replica set must have version 1, but found ${config.version}`;
  }
  if (config.settings.replicaSetId !== null)
    return "replica set configuration cannot contain 'replicaSetId' field when called from replSetInitiate";
  if (config.members.some((member) => member.newlyAdded)) {
    return 'newlyAdded field cannot be specified in the configuration for replSetInitiate';
  }
  return staticProblem(config, configServer);
}

/** 104's text when the member that runs the command could not be elected under the new configuration. */
export const notElectableText = (config: ReplicaSetConfig, self: MemberConfig): string =>
  `This node, ${self.host}, with _id ${self.id} is not electable under the new configuration with ${configText(config)} for replica set ${config.setName}`;

/** 74's text when no host of the new configuration is this member. */
export const noSelfText = (config: ReplicaSetConfig): string =>
  `No host described in new configuration with ${configText(config)} for replica set ${config.setName} maps to this node`;

/** `newlyAdded` as an unforced reconfig sets it: new ids that vote, and those still waiting. */
export function markNewlyAdded(old: ReplicaSetConfig, next: ReplicaSetConfig): ReplicaSetConfig {
  const members = next.members.map((member) => {
    const before = old.members.find((candidate) => candidate.id === member.id);
    const joining = before === undefined && member.votes > 0 && !member.arbiterOnly;
    const waiting = before?.newlyAdded === true && member.votes > 0;
    return joining || waiting ? { ...member, newlyAdded: true } : member;
  });
  return { ...next, members };
}
