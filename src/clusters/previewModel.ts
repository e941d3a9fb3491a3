/** The model a plan is folded over: what steps do to the world when all goes well. */
import { check } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import { seriesOf } from '../model/index.ts';
import { modelCertificate } from './certificates.ts';
import type { Decision, Placement, Step, StepOutcome } from './decisions.ts';
import type {
  ConfigMember,
  DatabaseFacts,
  MemberFacts,
  ReplSetConfig,
  RouterFacts,
  ServiceFacts,
} from './facts.ts';
import { guard } from './guard.ts';
import { configOf, views } from './interpret.ts';
import { lacksSnapshot } from './planners/rollout.ts';
import { systemUsersHash } from './planners/users.ts';
import { recovered } from './previewRecovery.ts';
import { startedRouter, UNINITIATED } from './previewRouters.ts';
import { activatedSnapshot } from './snapshotInputs.ts';
import { memberOf } from './state.ts';
import { applyOutcome, startStep } from './steps.ts';
import { isRouter, memberHost, serviceHostname } from './topology.ts';
import type { Desired, MemberState, Observed, ObservedMember, State } from './types.ts';

/** The world and the record at one moment of a plan. */
export interface Model {
  readonly observed: Observed;
  readonly state: State;
  /** The configuration each modelled set was initiated with, or got since. */
  readonly initiated: Readonly<Record<string, ReplSetConfig>>;
  /** Members that are down until they are given their configuration too, and what they tell from then on. */
  readonly asleep?: Readonly<Record<string, MemberFacts>>;
}

/** The model after these steps. The guard is asked as before an effect: it must agree with the planner (S16). */
export function perform(
  model: Model,
  act: Extract<Decision, { kind: 'act' }>,
  desired: Desired,
  now: Millis,
): Model {
  let next = model;
  act.steps.forEach((step, i) => {
    const id = `preview/${now}/${i}`;
    const refusal = guard(step, next.observed, desired, next.state, now, id);
    check(
      refusal === null,
      'S16',
      `the guard refuses what the planner planned: ${step.kind}: ${refusal?.detail}`,
    );
    const started = startStep(next.state, step, id, now);
    const outcome: StepOutcome = {
      kind: 'done',
      result: resultOf(step, id, desired, started, { observed: next.observed, now }),
    };
    next = world({ ...next, state: applyOutcome(started, step, id, outcome, now) }, step, id, desired);
  });
  return next;
}

function resultOf(
  step: Step,
  id: string,
  desired: Desired,
  state: State,
  { observed, now }: { readonly observed: Observed; readonly now: Millis },
): Extract<StepOutcome, { kind: 'done' }>['result'] {
  if (
    step.kind === 'publish' ||
    step.kind === 'reload' ||
    step.kind === 'rotateCertificate' ||
    step.kind === 'giveLogins'
  ) {
    const certificate = modelCertificate(state, observed, step.member, id, now);
    return { snapshot: activatedSnapshot(state, desired, step.member, step.configVersion, certificate) };
  }
  if (step.kind === 'setSuspend') return { generation: desired.generation + 1 };
  if (step.kind === 'reconcileSystemUsers') return { usersHash: systemUsersHash({ desired, state }) };
  return { operationId: id };
}

/** What the world looks like after a step that went well. */
export function world(model: Model, step: Step, id: string, desired: Desired): Model {
  const succeed = (result: Record<string, string | number>): Model => ({
    ...model,
    observed: {
      ...model.observed,
      operations: { ...model.observed.operations, [id]: { kind: 'succeeded', result } },
    },
  });
  switch (step.kind) {
    case 'import': {
      const record = memberOf(model.state, step.member);
      const { host, address, port } = step.placement;
      const serviceId = modelId(step.member);
      const volumeId = record?.volumeId ?? modelId(step.member);
      const made = succeed({ serviceId, volumeId, host, address, port });
      return withService(
        made,
        modelService(model.state.uid, step.member, serviceId, step.placement, desired),
      );
    }
    case 'deploy':
    case 'growVolume':
      return succeed({});
    case 'deleteRuntime':
      return withServices(
        withMembers(succeed({}), [step.member], null),
        (s) => s.kind !== 'runtime' || s.owner?.member !== step.member,
      );
    case 'deleteVolume':
      return withServices(succeed({}), (s) => s.kind !== 'volume' || s.owner?.member !== step.member);
    case 'publish':
      return withMembers(model, [step.member], started(model, step.member, step.configVersion, desired));
    case 'reload':
    case 'rotateCertificate':
    case 'giveLogins':
      return changed(revived(awake(model, step.member), step.member), step.member, (facts) => ({
        ...facts,
        configVersion: step.configVersion,
        certificate: null,
      }));
    case 'upgrade':
      return upgraded(revived(succeed({}), step.member), step.member, step.version);
    case 'addShard':
      return asRouters(model, (router) => ({
        ...router,
        shards: [...(router.shards ?? []), { name: step.replicaSet, host: step.shard, draining: false }],
      }));
    case 'stopBalancer':
      return asRouters(model, (router) => ({ ...router, balancer: 'off' }));
    case 'switchBalancer':
      return asRouters(model, (router) => ({ ...router, balancer: step.enabled ? 'full' : 'off' }));
    case 'startBalancer':
      return asRouters(model, (router) => ({ ...router, balancer: step.enable ? 'full' : 'off' }));
    case 'reconfig': {
      const next = reconfigured(model, step.config);
      return step.forcedBy === undefined ? next : crowned(next, step.via);
    }
    case 'setFcv':
      return raised(model, step.version);
    case 'stepDown':
      return handedOver(model, step.member);
    case 'initiate':
      return elected(withConfig(model, step.config), step.replicaSet, false, desired);
    case 'createFirstUser':
    case 'reconcileSystemUsers':
      return withUsers(model, step.replicaSet);
    default:
      return model;
  }
}

/** Id of what a plan makes for a member; real ones are the platform's. */
export const modelId = (member: string): string => `new ${member}`;

const raised = (model: Model, version: string): Model =>
  model.state.members.reduce(
    (m, { name }) =>
      changed(m, name, (facts) =>
        facts.database?.kind === 'reachable'
          ? { ...facts, database: { ...facts.database, featureCompatibilityVersion: version } }
          : facts,
      ),
    model,
  );

/** A runtime as its host would list it. */
function modelService(
  clusterUid: string,
  member: string,
  id: string,
  { host, port }: Placement,
  desired: Desired,
): ServiceFacts {
  const hostname = serviceHostname(desired, member);
  return {
    id,
    hostname,
    host,
    kind: 'runtime',
    owner: { installation: 'preview', clusterUid, member, hostname, proof: '' },
    masked: false,
    deployed: false,
    port,
    dataPath: null,
    sizeBytes: null,
  };
}

/** In place of one that its host may list already, where its import was under way. */
function withService(model: Model, service: ServiceFacts): Model {
  const { services } = model.observed;
  const others = (services ?? []).filter(
    (s) => s.kind !== 'runtime' || s.owner?.member !== service.owner?.member,
  );
  return { ...model, observed: { ...model.observed, services: [...others, service] } };
}

function withServices(model: Model, keep: (s: ServiceFacts) => boolean): Model {
  return {
    ...model,
    observed: { ...model.observed, services: model.observed.services?.filter(keep) ?? null },
  };
}

function withMembers(model: Model, names: readonly string[], facts: MemberFacts | null): Model {
  const observed = model.state.members.map((m): ObservedMember => {
    const before = model.observed.members.find((o) => o.name === m.name) ?? {
      name: m.name,
      facts: null,
      observedAt: null,
      connected: true,
    };
    return names.includes(m.name)
      ? { ...before, facts, observedAt: model.observed.at, connected: true }
      : before;
  });
  return { ...model, observed: { ...model.observed, members: observed } };
}

/**
 * The other binary starts; one that is to have another configuration too gets it before it answers (S2: it is under way),
 * and so goes down once for both.
 */
function upgraded(model: Model, name: string, version: string): Model {
  const next = changed(model, name, (facts) =>
    facts.database?.kind === 'reachable'
      ? { ...facts, database: { ...facts.database, binaryVersion: version } }
      : facts,
  );
  const member = memberOf(next.state, name);
  const facts = next.observed.members.find((m) => m.name === name)?.facts;
  if (member === null || !facts || !lacksSnapshot(next.state, member)) return next;
  const process = { kind: 'starting', pid: 1, since: next.observed.at } as const;
  const down = changed(next, name, () => ({ ...facts, process, database: null }));
  return { ...down, asleep: { ...model.asleep, [name]: facts } };
}

const awake = (model: Model, name: string): Model =>
  changed(model, name, (facts) =>
    facts.process.kind === 'starting' ? (model.asleep?.[name] ?? facts) : facts,
  );

/** A member that was down comes up with what it is given: that is what a corrected spec is for (STK-04). */
function revived(model: Model, name: string): Model {
  const facts = model.observed.members.find((m) => m.name === name)?.facts;
  const isDown = facts != null && (facts.configError !== null || facts.process.kind === 'exited');
  const well = isDown ? recovered(model.observed, model.state) : null;
  if (well === null) return model;
  const members = model.observed.members.map((m) =>
    m.name === name ? (well.members.find((w) => w.name === name) ?? m) : m,
  );
  return { ...model, observed: { ...model.observed, members } };
}

const withConfig = (model: Model, config: ReplSetConfig): Model => ({
  ...model,
  initiated: { ...model.initiated, [config._id]: config },
});

/** What every router says from now on. */
function asRouters(model: Model, change: (router: RouterFacts) => RouterFacts): Model {
  return model.state.members
    .filter(isRouter)
    .reduce(
      (m, member) =>
        changed(m, member.name, (facts) =>
          facts.database?.kind === 'reachable' && facts.database.router !== undefined
            ? { ...facts, database: { ...facts.database, router: change(facts.database.router) } }
            : facts,
        ),
      model,
    );
}

function changed(model: Model, name: string, change: (facts: MemberFacts) => MemberFacts): Model {
  const facts = model.observed.members.find((o) => o.name === name)?.facts;
  return facts ? withMembers(model, [name], change(facts)) : model;
}

/** Every member knows the new configuration; one that joined has synced at once, one that left is alone. */
function reconfigured(model: Model, config: ReplSetConfig): Model {
  const replicaSetId = idOf(model, config._id);
  const old = new Map(
    model.observed.members
      .flatMap((m) => (m.facts?.database?.kind === 'reachable' ? m.facts.database.peers : []))
      .map((p) => [p.host, p]),
  );
  const peers = config.members.map(
    (row) =>
      old.get(row.host) ?? {
        id: row._id,
        host: row.host,
        state: 'SECONDARY' as const,
        healthy: true,
        lagMillis: 0,
        message: null,
      },
  );
  return membersOf(model, config._id).reduce<Model>(
    (m, member) =>
      changed(m, member.name, (facts) => {
        if (facts.database?.kind !== 'reachable') return facts;
        const inSet = config.members.some((row) => row.host === memberHost(member));
        if (!inSet) return { ...facts, database: { ...facts.database, state: 'REMOVED' } };
        const joined = facts.database.initiated
          ? {}
          : {
              initiated: true,
              setName: config._id,
              replicaSetId,
              state: 'SECONDARY' as const,
              usersExist: true,
              authenticated: true,
            };
        return { ...facts, database: { ...facts.database, ...joined, config, peers } };
      }),
    withConfig(model, config),
  );
}

/** Those that are left after a forced reconfiguration elect this one. */
const crowned = (model: Model, name: string): Model =>
  changed(model, name, (facts) =>
    facts.database?.kind === 'reachable'
      ? { ...facts, database: { ...facts.database, state: 'PRIMARY', writablePrimary: true } }
      : facts,
  );

/** The next member of the set that could take over is primary. */
function handedOver(model: Model, name: string): Model {
  const order = membersOf(model, memberOf(model.state, name)?.replicaSet ?? '').map((m) => m.name);
  const stays = (member: string): boolean => memberOf(model.state, member)?.stage !== 'removing';
  const heir =
    order.filter((member) => member !== name).find(stays) ?? order[(order.indexOf(name) + 1) % order.length];
  const host = (member: string | undefined): string | null => {
    const record = member === undefined ? null : memberOf(model.state, member);
    return record === null ? null : memberHost(record);
  };
  // What the heir knows of the others by then is what the primary knows now; its own words may be of an earlier moment.
  const old = model.observed.members.find((m) => m.name === name)?.facts?.database;
  const known = old?.kind === 'reachable' ? old.peers : [];
  return order.reduce(
    (m, member) =>
      changed(m, member, (facts) => {
        if (facts.database?.kind !== 'reachable') return facts;
        const own = member === heir && known.length > 0 ? known : facts.database.peers;
        const state = member === heir ? 'PRIMARY' : member === name ? 'SECONDARY' : facts.database.state;
        const peers = own.map((p) => ({
          ...p,
          state: p.host === host(heir) ? ('PRIMARY' as const) : ('SECONDARY' as const),
          lagMillis: 0,
        }));
        return {
          ...facts,
          database: {
            ...facts.database,
            state,
            writablePrimary: member === heir,
            primary: host(heir),
            peers,
            // A login that failed while the users were still on their way works by then.
            authenticated: facts.database.authenticated === null ? null : true,
          },
        };
      }),
    model,
  );
}

/** The model when a member is up with its first configuration. */
export const withStarted = (model: Model, name: string, desired: Desired): Model => {
  const version = memberOf(model.state, name)?.activated?.configVersion ?? 0;
  return withMembers(model, [name], started(model, name, version, desired));
};

function started(model: Model, name: string, configVersion: number, desired: Desired): MemberFacts {
  const member = memberOf(model.state, name) as MemberState;
  if (isRouter(member))
    return startedRouter(
      model,
      { ...member, deployedVersion: binaryOf(model, name, desired) },
      configVersion,
    );
  const set = member.replicaSet;
  const own = views(model.state, model.observed).filter((v) => v.member.replicaSet === set);
  const known = model.initiated[set] ?? configOf(own);
  const host = memberHost(member);
  const joining = known !== null && !known.members.some((row) => row.host === host);
  const resumed = model.state.replicaSets.some((r) => r.name === set && r.stage === 'ready') && !joining;
  const base: MemberFacts = {
    serviceId: memberOf(model.state, name)?.serviceId ?? name,
    configVersion,
    configError: null,
    process: { kind: 'running', pid: 1, since: model.observed.at, adopted: false },
    database: { ...UNINITIATED, binaryVersion: binaryOf(model, name, desired) },
    certificate: null,
    volume: null,
  };
  return resumed ? { ...base, database: running(model, name, true, desired) } : base;
}

const membersOf = (model: Model, set: string): readonly MemberState[] =>
  model.state.members.filter((m) => m.replicaSet === set);

const idOf = (model: Model, set: string): string =>
  model.state.replicaSets.find((r) => r.name === set)?.replicaSetId ?? `preview ${set}`;

function elected(model: Model, set: string, users: boolean, desired: Desired): Model {
  return membersOf(model, set).reduce((m, member) => {
    const before = m.observed.members.find((o) => o.name === member.name)?.facts;
    if (!before) return m;
    return withMembers(m, [member.name], { ...before, database: running(m, member.name, users, desired) });
  }, model);
}

/** Users are there and log in; who is primary stays so. */
function withUsers(model: Model, set: string): Model {
  return membersOf(model, set).reduce(
    (m, member) =>
      changed(m, member.name, (facts) =>
        facts.database?.kind === 'reachable'
          ? { ...facts, database: { ...facts.database, usersExist: true, authenticated: true } }
          : facts,
      ),
    model,
  );
}

function running(model: Model, name: string, users: boolean, desired: Desired): DatabaseFacts {
  const set = memberOf(model.state, name)?.replicaSet ?? '';
  const members = membersOf(model, set);
  const first = members[0];
  const config = model.initiated[set] ?? modelConfig(members, set, desired);
  const isPrimary = first?.name === name;
  return {
    ...UNINITIATED,
    binaryVersion: binaryOf(model, name, desired),
    featureCompatibilityVersion: fcvOf(model, name, desired),
    initiated: true,
    setName: config._id,
    replicaSetId: idOf(model, set),
    state: isPrimary ? 'PRIMARY' : 'SECONDARY',
    term: 1,
    writablePrimary: isPrimary,
    primary: first ? memberHost(first) : null,
    peers: members.map((m, i) => ({
      id: m.index,
      host: memberHost(m) ?? '',
      state: i === 0 ? 'PRIMARY' : 'SECONDARY',
      healthy: true,
      lagMillis: 0,
      message: null,
    })),
    config,
    authenticated: users ? true : null,
    usersExist: users,
  };
}

const modelConfig = (members: readonly MemberState[], set: string, desired: Desired): ReplSetConfig => ({
  _id: set,
  version: 1,
  members: members.map(
    (m): ConfigMember => ({
      _id: m.index,
      host: memberHost(m) ?? serviceHostname(desired, m.name),
      priority: 1,
      votes: 1,
    }),
  ),
});

/** A new shard gets that of its cluster with `addShard`; any other set begins with that of its binary. */
function fcvOf(model: Model, name: string, desired: Desired): string | null {
  const known = model.observed.members.flatMap(({ facts }) =>
    facts?.database?.kind === 'reachable' ? (facts.database.featureCompatibilityVersion ?? []) : [],
  );
  return known[0] ?? seriesOf(binaryOf(model, name, desired)) ?? null;
}

const binaryOf = ({ state }: Model, name: string, desired: Desired): string =>
  memberOf(state, name)?.deployedVersion ?? desired.version;
