import { formatDuration, MINUTE, type Millis } from '../../base/units.ts';
import type { Decision, Reason, Step } from '../decisions.ts';
import type { ProcessFacts } from '../facts.ts';
import { initiated, isHealthy, isNewcomer, isUnanswered, type MemberView, primaryOf } from '../interpret.ts';
import { goalHash } from '../snapshotInputs.ts';
import { pendingOf, retryOf } from '../state.ts';
import { isRouter, untouched } from '../topology.ts';
import type { Desired, MemberState, State } from '../types.ts';
import { firstVersion, majorStep } from '../versions.ts';
import { placeAll } from './placement.ts';
import {
  act,
  backingOff,
  blocked,
  fixOf,
  helpFor,
  helpNeeded,
  type Planner,
  type Scene,
  soon,
  verdict,
  wait,
} from './planner.ts';

/** A4.1: CA, keyfile, system users' passwords and owner key come before anything outside is touched. */
export const planCredentials: Planner = (scene) => {
  if (scene.state.credentialsReady || scene.desired.deleting !== null) return null;
  const held = backingOff(scene, 'ensureCredentials', 'cluster');
  const members = scene.state.members.map((m) => m.name);
  return verdict(
    [
      held ??
        act('Creating', [{ kind: 'ensureCredentials', members }], 'keyfile, system users and certificates'),
    ],
    true,
  );
};

/** Operations under way: never a second one for the same member beside them (A2.4). */
export const planPending: Planner = (scene) => {
  const waits = scene.state.pending
    .filter((p) => !isLeftBehind(scene, p.member))
    .map((p) => {
      const facts = scene.observed.operations[p.stepId];
      const told = facts?.kind === 'running' && facts.detail !== p.action ? facts.detail : '';
      const detail = told === '' ? '' : `: ${told}`;
      const since = formatDuration(Math.max(0, scene.now - p.startedAt));
      return wait(
        'OperationRunning',
        soon(scene),
        `${p.action} of ${p.member} runs for ${since}${detail}`,
        p.member,
      );
    });
  return verdict(waits, false);
};

/** Out of its set and on a host that is away: nobody waits for it (A13.3). */
const isLeftBehind = ({ state, observed }: Scene, name: string): boolean => {
  const member = state.retired?.find((m) => m.name === name);
  return member !== undefined && !observed.hosts.some((h) => h.name === member.host && h.connected);
};

/** Imports every planned member at once (A4.2, A4.3), each at its place. */
export const planImport: Planner = (scene) => {
  const todo = free(scene, 'planned');
  if (todo.length === 0 || !wantsRuntime(scene)) return null;
  const held = todo.map((m) => backingOff(scene, 'import', m.name));
  const ready = todo.filter((_, i) => held[i] === null);
  const help = todo.map((m) => helpNeeded(scene, 'import', m.name));
  if (ready.length === 0) return verdict([...held, ...help], false);
  const places = placeAll(scene, ready);
  if (!places.ok) return verdict([places.error, ...held], false);
  const steps = ready.map(
    (m): Step => ({ kind: 'import', member: m.name, placement: places.value.get(m.name)! }),
  );
  return verdict([act(reasonFor(scene, ready), steps, names(ready)), ...held, ...help], false);
};

/** The server's exit code for a port that it cannot open. */
const EXIT_PORT = 48;
/** So many ports of a member may turn out to be somebody's before a person is asked: it is not the ports then (L2). */
const OTHER_PORTS = 3;

/**
 * A member whose chosen port somebody else has, while no set knows it by that port yet. That may be one of ours that has no
 * runtime just now and comes back to its place. A port of the spec is its writer's.
 */
export function lostItsPort(
  view: MemberView,
  all: readonly MemberView[],
  state: State,
  desired: Desired,
): boolean {
  if (desired.port !== null || view.member.serviceId === null) return false;
  const set = state.replicaSets.find((r) => r.name === view.member.replicaSet);
  // A router's place is known to clients once it has run.
  const known = set === undefined ? view.member.stage === 'active' : !untouched(set);
  if (known || initiated(all.filter((v) => v.member.replicaSet === view.member.replicaSet)) === true)
    return false;
  const process = view.facts?.process;
  const refused = retryOf(state, 'deploy', view.member.name)?.code === 'PortTaken';
  return (
    refused ||
    (process?.kind === 'exited' && process.exitCode === EXIT_PORT) ||
    isAnothers(state, view.member)
  );
}

/** Its set knows another one by this very place. */
function isAnothers({ members, replicaSets }: State, { name, host, port }: MemberState): boolean {
  const there = members.filter((m) => m.name !== name && m.host === host && m.port === port);
  return there.some((m) => replicaSets.some((r) => r.name === m.replicaSet && !untouched(r)));
}

/** Such a member is taken down and gets another port on the same host; its volume stays. */
export const planOtherPort: Planner = (scene) => {
  if (!wantsRuntime(scene)) return null;
  const unlucky = scene.all.filter((view) => lostItsPort(view, scene.all, scene.state, scene.desired));
  const steps = unlucky
    .filter(({ member }) => pendingOf(scene.state, member.name) === null)
    .filter(({ member }) => (member.lostPorts ?? []).length < OTHER_PORTS)
    .filter(({ member }) => backingOff(scene, 'deleteRuntime', member.name) === null)
    .map(
      ({ member: { name, port } }): Step => ({
        kind: 'deleteRuntime',
        member: name,
        ...(port === null ? {} : { lostPort: port }),
      }),
    );
  if (steps.length === 0) return null;
  const ports = unlucky.map(({ member }) => `${member.name} ${member.port}`).join(', ');
  return verdict([act('PortTaken', steps, `somebody else has the port: ${ports}`)], true);
};

/** Deploys every imported member at once (A4.8), and newcomers whose version was changed meanwhile. */
export const planDeploy: Planner = (scene) => {
  const { desired, state } = scene;
  const older = newcomers(scene).filter(
    (m) => m.deployedVersion !== desired.version && m.deployedVersion !== firstVersion(desired, state, m),
  );
  const todo = [...free(scene, 'imported').filter((m) => mayStart(scene, m)), ...older];
  if (todo.length === 0 || !wantsRuntime(scene)) return null;
  const held = todo.map((m) => olderThanData(scene, m) ?? backingOff(scene, 'deploy', m.name));
  const ready = todo.filter((_, i) => held[i] === null);
  const help = todo.map((m) => helpNeeded(scene, 'deploy', m.name));
  const steps = ready.map(
    (m): Step => ({ kind: 'deploy', member: m.name, version: firstVersion(desired, state, m) }),
  );
  const go = steps.length > 0 ? act(reasonFor(scene, ready), steps, names(ready)) : null;
  return verdict([go, ...held, ...help], false);
};

/** S7: a volume that a newer major ran on is opened by no older one, though its runtime is made anew. */
export function olderThanData(scene: Scene, { name, newestRun }: MemberState): Decision | null {
  const { version } = scene.desired;
  if (newestRun === undefined || majorStep(newestRun, version) !== 'down') return null;
  return blocked(
    'VersionStep',
    'spec',
    `${name} is to run ${version}, and ${newestRun} has run on its data`,
    `set spec.version to one of ${newestRun}`,
  );
}

/**
 * Gives a deployed member its first snapshot; it starts with it. Nothing is running yet, so all at once (STK-11). Newcomers
 * get a changed one the same way.
 */
export const planFirstPublish: Planner = (scene) => {
  const { goal } = scene.state;
  const first = scene.state.members.filter((m) => m.stage === 'deployed' && m.activated === null);
  const stale = newcomers(scene).filter(
    (m) =>
      m.activated !== null &&
      goal !== null &&
      (isUnanswered(m) || m.activated.configHash !== goalHash(goal, m.role)),
  );
  const todo = [...first, ...stale];
  if (todo.length === 0 || !wantsRuntime(scene)) return null;
  const held = todo.map((m) => servesAlone(scene, m) ?? backingOff(scene, 'publish', m.name));
  const ready = todo.filter((_, i) => held[i] === null);
  const steps = ready.map(
    (m): Step => ({ kind: 'publish', member: m.name, configVersion: scene.state.configVersion }),
  );
  const go = steps.length > 0 ? act(reasonFor(scene, ready), steps, names(ready)) : null;
  return verdict([go, ...held], false);
};

/** S1: it took a configuration whose answer was lost, and serves; another one restarts it, which waits for a second router. */
function servesAlone(scene: Scene, { name }: MemberState): Decision | null {
  const serving = scene.all.filter((v) => v.member.role === 'router' && isHealthy(v, scene.all));
  const others = scene.all.some((v) => v.member.role === 'router' && v.member.name !== name);
  if (!others || serving.length !== 1 || serving[0]?.member.name !== name) return null;
  const detail = `${name} is the only router that serves: it is given its configuration when another one does`;
  return wait('WaitingForRouter', soon(scene), detail, name);
}

const newcomers = (scene: Scene): readonly MemberState[] =>
  scene.all
    .filter((v) => isNewcomer(v, scene.all) && pendingOf(scene.state, v.member.name) === null)
    .filter((v) => scene.state.replicaSets.find((r) => r.name === v.member.replicaSet)?.stage !== 'bootstrap')
    .map((v) => v.member);

/** A5.3: routers start when the config servers are a set with users; on the way back from a suspension when it has a primary. */
function mayStart(scene: Scene, member: MemberState): boolean {
  if (!isRouter(member)) return true;
  const config = scene.state.replicaSets.find((r) => r.role === 'configServer');
  const servers = scene.all.filter((v) => v.member.role === 'configServer');
  return config?.stage === 'ready' && primaryOf(servers) !== null;
}

function reasonFor({ state }: Scene, members: readonly MemberState[]): Reason {
  if (state.phase === 'suspended') return 'Resuming';
  return members.find((m) => m.replacement)?.replacement?.because ?? 'Creating';
}

const wantsRuntime = (scene: Scene): boolean => scene.desired.deleting === null && !scene.desired.suspend;

const free = (scene: Scene, stage: MemberState['stage']): readonly MemberState[] =>
  scene.state.members.filter((m) => m.stage === stage && pendingOf(scene.state, m.name) === null);

export const names = (members: readonly { readonly name: string }[]): string =>
  members.map((m) => m.name).join(', ');

/** Deployed members that are not up yet, and why: the process, its snapshot or its agent (L3). */
export const planStarting: Planner = (scene) =>
  verdict(
    scene.all.map((view) => starting(scene, view)),
    false,
  );

function starting(scene: Scene, { member, facts }: MemberView): Decision | null {
  const { name, host, serviceId, activated } = member;
  if (serviceId === null || activated === null) return null;
  if (facts === null) {
    const where = host === null ? '' : ` on host ${host}`;
    const detail = `nothing is known of ${name}: no agent${where} reports it`;
    return wait('AgentNotConnected', soon(scene), detail, name);
  }
  const { configError, process, database } = facts;
  if (configError !== null)
    return blocked(
      'SnapshotRejected',
      'spec',
      `${name} cannot take its configuration: ${configError}`,
      'correct what it names in the spec, or put the last change back (belay apply): this member gets the new one at once, and no other is touched before it runs',
    );
  if (process.kind === 'exited') return exited(scene, member, process);
  if (process.kind === 'starting' || database === null || database.kind === 'unreachable') {
    const why = database?.kind === 'unreachable' ? `: ${database.message}` : '';
    const what = silence(process, scene.now);
    return wait('ProcessStarting', soon(scene), `${name} ${what}${what === STOPPING ? '' : why}`, name);
  }
  if (facts.configVersion >= activated.configVersion) return null;
  const detail = `${name} takes over configuration ${activated.configVersion}`;
  return wait('SnapshotNotAcknowledged', soon(scene), detail, name);
}

/** What a process does of which no answer comes. */
function silence(process: ProcessFacts, now: Millis): string {
  if (process.kind !== 'running') return 'is starting';
  if (process.stopping === true) return STOPPING;
  return now - process.since > STARTS_WITHIN ? 'runs and does not answer' : 'is starting';
}
const STOPPING = 'is being stopped';
/** A process that has run for so long is not starting any more, as far as anybody can tell. */
const STARTS_WITHIN: Millis = MINUTE;

/** From this many failed starts on, a person is asked to look. */
const STARTS_BEFORE_BLOCKED = 3;

function exited(
  scene: Scene,
  { name, host, serviceId }: MemberState,
  process: Extract<ProcessFacts, { kind: 'exited' }>,
): Decision {
  // The agent starts it again and again with a wait of at most half a minute: whoever frees the port has done enough.
  if (process.exitCode === EXIT_PORT)
    return blocked(
      'PortTaken',
      'person',
      `${name} on host ${host} cannot start: ${process.message}`,
      'stop what has the port; the member then starts by itself within half a minute',
    );
  // Nothing ran that could have last words: its agent says why.
  const refused = `${name} on host ${host} is not started: ${process.message}`;
  const help = process.code === undefined ? null : helpFor(scene, process.code, name, refused);
  if (help !== null) return help;
  const detail = `${name} has ended: ${process.message}`;
  if (process.failures >= STARTS_BEFORE_BLOCKED || process.nextStartAt === null) {
    const fix = `correct what its last words name, or put the change back; all of them: services/${serviceId}/mongod.log below the data folder of the agent on host ${host}`;
    return /no space|disk/i.test(process.message)
      ? blocked('DiskFull', 'person', detail, fixOf('DiskFull'))
      : blocked('ProcessFailing', 'person', detail, fix);
  }
  return wait(
    'ProcessStarting',
    process.nextStartAt > scene.now ? process.nextStartAt : soon(scene),
    `${detail}; it is started again`,
    name,
  );
}
