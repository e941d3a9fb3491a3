import {
  configText,
  implicitMajority,
  isElectable,
  isVoter,
  majorityVotes,
  NO_TERM,
  type ReplicaSetConfig,
} from './config.ts';
import { parseConfig } from './config-parse.ts';
import {
  initiateProblem,
  markNewlyAdded,
  noSelfText,
  notElectableText,
  reconfigProblem,
} from './config-rules.ts';
import { heartbeatRequest } from './heartbeats.ts';
import { installConfig } from './install.ts';
import { configCommitted, configReplicated, configTarget, replicatedToMajority } from './leader.ts';
import type { PeerReply } from './messages.ts';
import { opTimeText } from './optime.ts';
import {
  answer,
  emit,
  heartbeatTimeout,
  isWritable,
  nextToken,
  note,
  refusal,
  refuse,
  stateOf,
  type Turn,
} from './turn.ts';
import type { Pending, Quorum, ReconfigOptions, ReconfigWait, Refusal, State } from './types.ts';

type Checked = Extract<Pending, { kind: 'initiate' | 'reconfig' }>;

const badConfig = (message: string): Refusal => refusal(93, 'InvalidReplicaSetConfig', message);
const incompatible = (message: string): Refusal =>
  refusal(103, 'NewReplicaSetConfigurationIncompatible', message);

// ── initiate ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** replSetInitiate: checks, finds itself in the configuration, asks all members, installs. */
export function initiate(turn: Turn, id: number, document: unknown, newSetId: string) {
  const { s } = turn;
  note(turn, 'I', 'REPL', 21356, 'replSetInitiate admin command received from client');
  if (s.config !== null || s.pending !== null) {
    const info = 'try querying local.system.replset to see current configuration';
    return refuse(turn, id, refusal(23, 'AlreadyInitialized', 'already initialized', { info }));
  }
  const parsed = parseConfig(document);
  if (!parsed.ok) return refuse(turn, id, badConfig(parsed.error));
  if (parsed.value.setName !== s.setName) {
    return refuse(
      turn,
      id,
      badConfig(
        `Rejecting initiate with a set name that differs from command line set name, initiate set name: ${parsed.value.setName}, command line set name: ${s.setName}`,
      ),
    );
  }
  const withType = s.configServer ? { ...parsed.value, configsvr: true } : parsed.value;
  const problem = initiateProblem(withType, s.configServer);
  if (problem !== null) return refuse(turn, id, badConfig(problem));
  note(turn, 'I', 'REPL', 21357, 'replSetInitiate config object parses ok', {
    numMembers: withType.members.length,
  });
  const config = { ...withType, term: 0, settings: { ...withType.settings, replicaSetId: newSetId } };
  const token = nextToken(turn);
  s.pending = { kind: 'initiate', token, config, id, self: -1, quorum: null };
  emit(turn, { kind: 'findSelf', token, config });
}

// ── reconfig ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** replSetReconfig; unforced ones first wait until the current configuration is committed. */
export function reconfig(turn: Turn, id: number, document: unknown, options: ReconfigOptions) {
  const { s, now } = turn;
  note(turn, 'I', 'REPL', 21352, 'replSetReconfig admin command received from client');
  if (options.force || s.config === null) return beginReconfig(turn, id, document, options);
  const deadline = options.maxTimeMillis === null ? null : now + options.maxTimeMillis;
  s.reconfigs = [...s.reconfigs, { kind: 'precondition', id, document, options, deadline }];
}

function notCommittedText(s: State): string {
  const config = configText(s.config!);
  return configReplicated(s)
    ? `Last committed optime in the previous config (${opTimeText(configTarget(s))}) has not yet become committed in the current config with ${config}`
    : `Current config with ${config} has not yet propagated to a majority of nodes`;
}

const rejected = (why: string): string => `New config is rejected :: caused by :: ${why}`;

function settleWait(turn: Turn, wait: ReconfigWait): boolean {
  const { s, now } = turn;
  const late = wait.deadline !== null && now >= wait.deadline;
  if (wait.kind === 'propagation') {
    const passed = s.config !== null && (s.config.version > wait.version || s.config.term > wait.term);
    const done = passed || (configReplicated(s) && replicatedToMajority(s, s.configBase));
    if (done) answer(turn, wait.id);
    else if (late) {
      const text = `Reconfig finished but failed to propagate to a majority :: caused by :: ${notCommittedText(s)} :: caused by :: operation exceeded time limit`;
      refuse(turn, wait.id, refusal(50, 'MaxTimeMSExpired', text));
    }
    return done || late;
  }
  if (!isWritable(s)) {
    const text = `replSetReconfig should only be run on a writable PRIMARY. Current state ${stateOf(s)};`;
    refuse(turn, wait.id, refusal(10107, 'NotWritablePrimary', rejected(text)));
    return true;
  }
  if (configCommitted(s)) {
    beginReconfig(turn, wait.id, wait.document, wait.options);
    return true;
  }
  if (!late) return false;
  const text = rejected(`${notCommittedText(s)} :: caused by :: operation exceeded time limit`);
  refuse(turn, wait.id, refusal(308, 'CurrentConfigNotCommittedYet', text));
  return true;
}

/** Moves waiting reconfigs on, in order. */
export function settleReconfigs(turn: Turn): void {
  for (const wait of turn.s.reconfigs) {
    const still = turn.s.reconfigs.includes(wait);
    if (still && settleWait(turn, wait)) {
      turn.s.reconfigs = turn.s.reconfigs.filter((candidate) => candidate !== wait);
    }
  }
  checkQuorum(turn);
}

function preconditions(s: State, options: ReconfigOptions): Refusal | null {
  if (s.config === null) {
    return refusal(94, 'NotYetInitialized', 'Node not yet initialized; use the replSetInitiate command');
  }
  if (s.pending !== null) {
    const text = 'Cannot run replSetReconfig because the node is currently updating its configuration';
    return refusal(109, 'ConfigurationInProgress', text);
  }
  if (!options.force && !isWritable(s)) {
    const text = `Safe reconfig is only allowed on a writable PRIMARY. Current state is ${stateOf(s)}`;
    return refusal(10107, 'NotWritablePrimary', text);
  }
  return null;
}

function beginReconfig(turn: Turn, id: number, document: unknown, options: ReconfigOptions) {
  const { s } = turn;
  const refused = preconditions(s, options);
  if (refused !== null) return refuse(turn, id, refused);
  const prepared = prepare(s, document, options);
  if ('code' in prepared) return refuse(turn, id, prepared);
  note(turn, 'I', 'REPL', 21353, 'replSetReconfig config object parses ok', {
    numMembers: prepared.members.length,
  });
  const token = nextToken(turn);
  s.pending = { kind: 'reconfig', token, config: prepared, id, force: options.force, self: -1, quorum: null };
  emit(turn, { kind: 'findSelf', token, config: prepared });
}

const FORCED_JUMP = 10_000;

function prepare(s: State, document: unknown, options: ReconfigOptions): ReplicaSetConfig | Refusal {
  const old = s.config!;
  const parsed = parseConfig(document);
  if (!parsed.ok) return badConfig(parsed.error);
  const given = parsed.value;
  if (given.setName !== s.setName) {
    return badConfig(
      `Rejecting reconfig where new config set name differs from command line set name, new config set name: ${given.setName}, old config set name: ${s.setName}`,
    );
  }
  if (given.members.some((member) => member.newlyAdded)) {
    return badConfig('Cannot provide newlyAdded field to member config during reconfig.');
  }
  const named: ReplicaSetConfig = {
    ...given,
    settings: { ...given.settings, replicaSetId: given.settings.replicaSetId ?? old.settings.replicaSetId },
    ...(options.force
      ? { term: NO_TERM, version: Math.max(old.version, given.version) + FORCED_JUMP + options.jump }
      : { term: s.term }),
  };
  const next = options.force ? named : markNewlyAdded(old, named);
  const concern = concernProblem(old, next, options);
  if (concern !== null) return incompatible(concern);
  const problem = reconfigProblem(old, next, { force: options.force, configServer: s.configServer });
  return problem === null ? next : incompatible(problem);
}

function concernProblem(
  old: ReplicaSetConfig,
  next: ReplicaSetConfig,
  options: ReconfigOptions,
): string | null {
  // Newly added members will vote soon: the default is judged by the configuration it will become.
  const final = { ...next, members: next.members.map((member) => ({ ...member, newlyAdded: false })) };
  if (!options.explicitDefault && implicitMajority(old) !== implicitMajority(final)) {
    return 'Reconfig attempted to install a config that would change the implicit default write concern. Use the setDefaultRWConcern command to set a cluster-wide write concern and try the reconfig again.';
  }
  const { defaultMode } = options;
  if (defaultMode === null || !(defaultMode in old.settings.getLastErrorModes)) return null;
  const same =
    JSON.stringify(old.settings.getLastErrorModes[defaultMode]) ===
    JSON.stringify(next.settings.getLastErrorModes[defaultMode]);
  return same
    ? null
    : `May not remove custom write concern definition from config while it is in use as the default write concern. Change the default write concern to a non-conflicting setting and try the reconfig again.`;
}

// ── finding itself, quorum ─────────────────────────────────────────────────────────────────────────────────────────

/** The answer to findSelf, for whichever configuration was on its way in. */
export function onSelfFound(turn: Turn, token: number, indexes: readonly number[]) {
  const { s } = turn;
  const { pending } = s;
  if (pending === null || pending.token !== token) return;
  if (pending.kind === 'start' || pending.kind === 'heartbeat') {
    s.pending = null;
    return installConfig(turn, pending.config, indexes[0] ?? -1);
  }
  const refused = selfProblem(pending, indexes);
  if (refused !== null) {
    s.pending = null;
    return refuse(turn, pending.id, refused);
  }
  const self = indexes[0]!;
  if (pending.kind === 'reconfig' && pending.force) return finish(turn, { ...pending, self });
  askQuorum(turn, { ...pending, self });
}

function selfProblem(pending: Checked, indexes: readonly number[]): Refusal | null {
  const { config } = pending;
  const wrap = (code: number, codeName: string, text: string): Refusal =>
    pending.kind === 'initiate' ? badConfig(text) : refusal(code, codeName, text);
  if (indexes.length === 0) return wrap(74, 'NodeNotFound', noSelfText(config));
  if (indexes.length > 1) {
    const [first, second] = indexes.map((index) => config.members[index]?.host);
    const text = `The hosts ${first} and ${second} all map to this node in new configuration with ${configText(config)} for replica set ${config.setName}`;
    return wrap(103, 'NewReplicaSetConfigurationIncompatible', text);
  }
  const self = config.members[indexes[0]!]!;
  const forced = pending.kind === 'reconfig' && pending.force;
  if (!forced && !isElectable(self)) return wrap(104, 'NodeNotElectable', notElectableText(config, self));
  return null;
}

function askQuorum(turn: Turn, pending: Checked): void {
  const { s, now } = turn;
  const asked: Record<number, string> = {};
  const { config, self } = pending;
  const base = heartbeatRequest(s, { config, self });
  const request = {
    ...base,
    checkEmpty: pending.kind === 'initiate',
    replicaSetId: config.settings.replicaSetId,
  };
  const timeout = heartbeatTimeout(s);
  config.members.forEach((member, index) => {
    if (index === self) return;
    const token = nextToken(turn);
    asked[token] = member.host;
    emit(turn, { kind: 'send', token, to: member.host, request, timeout });
  });
  const me = config.members[self]!.host;
  s.pending = {
    ...pending,
    quorum: { pending: asked, answered: [me], failed: [], deadline: now + timeout },
  };
  checkQuorum(turn);
}

/** The answer to a quorum heartbeat; true when the token was one. */
export function onQuorumReply(turn: Turn, token: number, reply: PeerReply): boolean {
  const { pending } = turn.s;
  if (pending === null || (pending.kind !== 'initiate' && pending.kind !== 'reconfig')) return false;
  const quorum = pending.quorum;
  const host = quorum?.pending[token];
  if (!quorum || host === undefined) return false;
  const { [token]: _, ...rest } = quorum.pending;
  const veto = vetoOf(pending, host, reply);
  if (veto !== null) {
    turn.s.pending = null;
    refuse(turn, pending.id, veto);
    return true;
  }
  const failed = reply.kind === 'failed' ? [...quorum.failed, { host, why: reply.message }] : quorum.failed;
  const answered = reply.kind === 'heartbeat' ? [...quorum.answered, host] : quorum.answered;
  turn.s.pending = { ...pending, quorum: { ...quorum, pending: rest, failed, answered } };
  checkQuorum(turn);
  return true;
}

/** Answers that end the command whatever the others say. */
function vetoOf(pending: Checked, host: string, reply: PeerReply): Refusal | null {
  if (reply.kind === 'failed' && reply.code === 108) {
    return incompatible(
      reply.message.startsWith('replica set IDs')
        ? `Our replica set ID did not match that of ${host}`
        : `Our set name did not match that of ${host}`,
    );
  }
  if (reply.kind !== 'heartbeat') return null;
  const { config } = pending;
  const ourId = config.settings.replicaSetId;
  if (reply.replicaSetId !== null && ourId !== null && reply.replicaSetId !== ourId) {
    return incompatible(
      `Our replica set ID of ${ourId} did not match that of ${host}, which is ${reply.replicaSetId}`,
    );
  }
  if (reply.configVersion >= config.version) {
    return incompatible(
      `Our config version of ${config.version} is no larger than the version on ${host}, which is ${reply.configVersion}`,
    );
  }
  if (pending.kind === 'initiate' && reply.hasData) {
    return refusal(110, 'CannotInitializeNodeWithData', `'${host}' has data already, cannot initiate set.`);
  }
  return null;
}

const listFailures = (failed: Quorum['failed']): string =>
  failed.map(({ host, why }) => `${host} failed with ${why}`).join(', ');

function quorumProblem(pending: Checked, quorum: Quorum, final: boolean): Refusal | 'wait' | null {
  const { config } = pending;
  if (pending.kind === 'initiate') {
    if (!final && quorum.failed.length === 0) return Object.keys(quorum.pending).length > 0 ? 'wait' : null;
    if (quorum.failed.length === 0 && Object.keys(quorum.pending).length === 0) return null;
    if (!final && Object.keys(quorum.pending).length > 0) return 'wait';
    const text = `replSetInitiate quorum check failed because not all proposed set members responded affirmatively: ${listFailures(quorum.failed)}`;
    return refusal(74, 'NodeNotFound', text);
  }
  const voting = config.members.filter((member) => isVoter(member) && quorum.answered.includes(member.host));
  const electable = config.members.some(
    (member) => isElectable(member) && quorum.answered.includes(member.host),
  );
  if (voting.length >= majorityVotes(config) && electable) return null;
  if (!final && Object.keys(quorum.pending).length > 0) return 'wait';
  if (!electable) {
    return refusal(
      74,
      'NodeNotFound',
      'Quorum check failed because no electable nodes responded; at least one required for config',
    );
  }
  const text = `Quorum check failed because not enough voting nodes responded; required ${majorityVotes(config)} but only the following ${voting.length} voting nodes responded: ${voting.map((member) => member.host).join(', ')}; the following nodes did not respond affirmatively: ${listFailures(quorum.failed)}`;
  return refusal(74, 'NodeNotFound', text);
}

function checkQuorum(turn: Turn) {
  const { s, now } = turn;
  const { pending } = s;
  if (pending === null || (pending.kind !== 'initiate' && pending.kind !== 'reconfig')) return;
  if (pending.quorum === null) return;
  const final = now >= pending.quorum.deadline;
  const silent = final
    ? Object.values(pending.quorum.pending).map((host) => ({ host, why: 'Request timed out' }))
    : [];
  const quorum = { ...pending.quorum, failed: [...pending.quorum.failed, ...silent] };
  const problem = quorumProblem(pending, quorum, final);
  if (problem === 'wait') return;
  if (problem === null) return finish(turn, pending);
  s.pending = null;
  refuse(turn, pending.id, problem);
}

function finish(turn: Turn, pending: Checked) {
  const { s, now } = turn;
  s.pending = null;
  if (pending.kind === 'initiate') {
    s.prompt = true;
    // The first entry makes this the one member with data; the others copy from it.
    emit(turn, { kind: 'appendNoop', o: { msg: 'initiating set' }, term: NO_TERM });
    s.applied = { op: { t: NO_TERM, s: Math.floor(now / 1000), i: 1 }, wall: now };
    installConfig(turn, pending.config, pending.self);
    return answer(turn, pending.id);
  }
  installConfig(turn, pending.config, pending.self);
  if (pending.force) return answer(turn, pending.id);
  const { version, term } = pending.config;
  emit(turn, { kind: 'appendNoop', o: { msg: 'Reconfig set', version }, term: s.term });
  s.reconfigs = [...s.reconfigs, { kind: 'propagation', id: pending.id, version, term, deadline: null }];
}
