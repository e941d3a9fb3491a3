/**
 * Every step's effect. Each is idempotent or carries its step id; what it brings back is an outcome, and nothing here
 * decides whether it may be done (that is the guard's).
 */
import { BelayError, unreachable } from '../base/error.ts';
import type { Bytes } from '../base/units.ts';
import {
  activatedSnapshot,
  type CommandOutcome,
  certificateNeed,
  type Desired,
  type Login,
  loginsNow,
  type MemberCommand,
  type MemberSnapshot,
  type MemberState,
  memberOf,
  oldestVersion,
  type Placement,
  type ServiceSpec,
  type State,
  type Step,
  type StepOutcome,
  serviceHostname,
  snapshotInputs,
  systemUsersHash,
} from '../clusters/index.ts';
import { type Informer, keyOf } from '../engine/informer.ts';
import type { Agents, Clock, Fence, MemberRef, Platform, Store, StoredObject } from '../engine/ports.ts';
import type { Effect, Subject } from '../engine/provider.ts';
import { EXTERNAL_DB, type MongoDBSpec, SYSTEM_USERNAMES } from '../model/index.ts';
import type { Credentials } from './credentials.ts';
import {
  CLUSTER_FINALIZER,
  clusterSecrets,
  KEPT_ANNOTATION,
  memberSecrets,
  stagedPasswords,
  USER_FINALIZER,
} from './names.ts';
import type { Reading } from './observe.ts';
import { isAbout } from './operationObjects.ts';
import { placementOf, serviceSpec } from './serviceSpec.ts';
import type { UserObject, UserSecrets } from './userObjects.ts';
import { managedRoles, type SystemUsername, systemUser, USER_ADMIN } from './users.ts';
import { COMMAND_LIMIT, EFFECT_LIMIT, within } from './within.ts';

export interface EffectDeps {
  readonly agents: Agents;
  readonly platform: Platform;
  readonly store: Store;
  readonly informer: Informer;
  readonly clock: Clock;
  readonly credentials: Credentials;
  readonly userSecrets: UserSecrets;
  /** Identity of this installation: part of every owner marker. */
  readonly installation: string;
  /** Version of the agent artifact that runtimes are made with. */
  readonly agentVersion: string;
}

/** The old primary does not stand again for this long: enough to be worked on. */
const STEP_DOWN_SECONDS = 60;
/** How long an heir may take to catch up before the server refuses. */
const CATCH_UP_SECONDS = 10;

/** Everything an effect works with. */
interface Work extends EffectDeps {
  readonly desired: Desired;
  readonly state: State;
  readonly object: StoredObject;
  readonly reading: Reading;
  readonly stepId: string;
  readonly fence: Fence;
}

/** Does one step. Throws BelayError; its retry class says what the outcome is. */
export function perform(
  deps: EffectDeps,
  step: Step,
  subject: Subject<Desired, State>,
  context: { readonly stepId: string; readonly fence: Fence; readonly observed: Reading },
): Promise<Effect> {
  const { observed, stepId, fence } = context;
  const work: Work = { ...deps, ...subject, reading: observed, stepId, fence };
  return within(deps.clock, EFFECT_LIMIT, step.kind, effect(work, step), 'unknown-outcome').catch(
    (failure: unknown) => notSent(step, failure),
  );
}

const INFRASTRUCTURE: ReadonlySet<Step['kind']> = new Set([
  'growVolume',
  'import',
  'deploy',
  'upgrade',
  'deleteRuntime',
  'deleteVolume',
]);

/**
 * An infrastructure step that found its host cut off has not failed (A3.1 speaks of failed operations): it is taken up
 * under its own id as soon as the host is back, without a wait.
 */
function notSent(step: Step, failure: unknown): Effect {
  if (
    failure instanceof BelayError &&
    failure.code === 'AgentNotConnected' &&
    INFRASTRUCTURE.has(step.kind)
  ) {
    return { outcome: { kind: 'unknown', message: failure.message } };
  }
  throw failure;
}

async function effect(work: Work, step: Step): Promise<Effect> {
  switch (step.kind) {
    case 'ensureCredentials':
      await work.credentials.ensure(work.state.uid);
      return done({});
    case 'adopt':
      return done({}); // proven by its marker while observing; on platforms without markers this is where one is set
    case 'import':
      return importMember(work, step.member, step.placement);
    case 'deploy':
      return deploy(work, step.member, step.version);
    case 'growVolume':
      return growVolume(work, step.member, step.sizeBytes);
    case 'upgrade':
      return deploy(work, step.member, step.version);
    case 'publish':
    case 'reload':
      return publish(work, step.member, step.configVersion);
    case 'stageLogins':
      await work.credentials.stage(work.state.uid, step.users);
      return done({});
    case 'giveLogins':
      return giveLogins(work, step.member, step.configVersion);
    case 'rotateUsers':
      return rotateUsers(work, step);
    case 'keepLogins':
      return keepLogins(work, step.users);
    case 'rotateCertificate':
      return rotateCertificate(work, step.member, step.configVersion);
    case 'reconfig':
      return reconfig(work, step);
    case 'setFcv':
      return setFcv(work, step.via, step.version);
    case 'setSuspend':
      return setSuspend(work, step.suspend);
    case 'stepDown':
      return stepDown(work, step.member);
    case 'addShard':
      return addShard(work, step.via, step.shard);
    case 'stopBalancer':
      return setBalancer(work, step.via, false);
    case 'switchBalancer':
      return setBalancer(work, step.via, step.enabled);
    case 'startBalancer':
      return step.enable ? setBalancer(work, step.via, true) : done({});
    case 'initiate':
      return command(work, step.via, { kind: 'initiate', config: step.config });
    case 'createFirstUser':
      return createFirstUser(work, step.via);
    case 'reconcileSystemUsers':
      return reconcileSystemUsers(work, step.via);
    case 'applyUser':
      return applyUser(work, step);
    case 'dropUser':
      return dropUser(work, step);
    case 'deleteRuntime':
      return deleteRuntime(work, step.member);
    case 'deleteVolume':
      return deleteVolume(work, step.member);
    case 'deleteSecrets':
      return { ...done({}), also: { secretPrefixesToDelete: [clusterSecrets(work.state.uid)] } };
    case 'forget':
      return forget(work);
    default:
      return unreachable(step);
  }
}

const done = (result: Extract<StepOutcome, { kind: 'done' }>['result']): Effect => ({
  outcome: { kind: 'done', result },
});

// ── infrastructure ─────────────────────────────────────────────────────────────────────────────────────────────────

async function importMember(work: Work, name: string, placement: Placement): Promise<Effect> {
  const spec = await specOf(work, member(work, name), placement);
  return done(await work.platform.import(spec, work.stepId, work.fence));
}

async function deploy(work: Work, name: string, version: string): Promise<Effect> {
  const target = member(work, name);
  const placement = placementOf(target);
  if (placement === null || target.serviceId === null) throw notPlaced(name);
  const spec = { ...(await specOf(work, target, placement)), version };
  return done(await work.platform.deploy(target.serviceId, spec, work.stepId, work.fence));
}

async function specOf(work: Work, target: MemberState, placement: Placement): Promise<ServiceSpec> {
  const { desired, state, installation, credentials } = work;
  const hostname = serviceHostname(desired, target.name);
  const owner = await credentials.marker(installation, state.uid, target.name, hostname);
  return serviceSpec(desired, target, placement, owner, work.agentVersion);
}

async function deleteRuntime(work: Work, name: string): Promise<Effect> {
  const { serviceId, host } = member(work, name);
  if (serviceId === null || host === null) throw notPlaced(name);
  const service = { id: serviceId, host, clusterUid: work.state.uid };
  return done(await work.platform.deleteRuntime(service, work.stepId, work.fence));
}

async function growVolume(work: Work, name: string, sizeBytes: Bytes): Promise<Effect> {
  const { volumeId, host } = member(work, name);
  if (volumeId === null || host === null) throw notPlaced(name);
  const volume = { id: volumeId, host, clusterUid: work.state.uid, member: name };
  return done(await work.platform.growVolume(volume, sizeBytes, work.stepId, work.fence));
}

/** A member that has left takes its certificate along; deletion of the whole cluster takes all secrets at once. */
async function deleteVolume(work: Work, name: string): Promise<Effect> {
  const { volumeId, host, stage } = member(work, name);
  if (volumeId === null || host === null) throw notPlaced(name);
  const volume = { id: volumeId, host, clusterUid: work.state.uid, member: name };
  const started = done(await work.platform.deleteVolume(volume, work.stepId, work.fence));
  if (stage !== 'removing') return started;
  return { ...started, also: { secretPrefixesToDelete: [memberSecrets(work.state.uid, name)] } };
}

function member(work: Pick<Work, 'state'>, name: string): MemberState {
  const found = memberOf(work.state, name);
  if (found === null) throw new BelayError('NotPlaced', `there is no member ${name}`, { retry: 'never' });
  return found;
}

const notPlaced = (name: string): BelayError =>
  new BelayError('NotPlaced', `${name} has no place yet`, { retry: 'later' });

// ── snapshots ──────────────────────────────────────────────────────────────────────────────────────────────────────

async function publish(
  work: Work,
  name: string,
  configVersion: number,
  certificatesOnline = false,
): Promise<Effect> {
  const { desired, state, agents, credentials, clock } = work;
  const target = member(work, name);
  const successor = certificateNeed(state, work.reading, target, clock.now()) !== null;
  const [certificate, keyFile, logins] = await Promise.all([
    credentials.certificate(desired, state.uid, target, clock.now(), successor),
    credentials.keyFile(state.uid),
    agentLogins(work),
  ]);
  const snapshot: MemberSnapshot = {
    ...snapshotInputs(state, desired, target, configVersion),
    certificatesOnline,
    caPem: certificate.caPem,
    certificatePem: certificate.pem,
    keyFile,
    ...logins,
  };
  await agents.publish(ref(target), snapshot, work.fence);
  await credentials.promote(state.uid, name, certificate);
  return done({ snapshot: activatedSnapshot(state, desired, name, configVersion, certificate.given) });
}

/** What an agent logs in with at this moment of a rotation (A13.4, S12). */
async function agentLogins({
  state,
  credentials,
}: Work): Promise<Pick<MemberSnapshot, 'monitor' | 'nextMonitor'>> {
  const monitor = await credentials.login(state.uid, MONITOR);
  const both = loginsNow(state)?.both === true;
  return { monitor, nextMonitor: both ? await credentials.stagedLogin(state.uid, MONITOR) : null };
}
const MONITOR: SystemUsername = 'clusterMonitor';

/** The snapshot it has with other passwords: nothing in it restarts a process (CRD-11). */
async function giveLogins(work: Work, name: string, configVersion: number): Promise<Effect> {
  const { desired, state, agents, credentials } = work;
  const target = member(work, name);
  if (target.activated === null) throw notPlaced(name);
  const [certificate, keyFile, logins] = await Promise.all([
    credentials.certificateInUse(state.uid, name),
    credentials.keyFile(state.uid),
    agentLogins(work),
  ]);
  const snapshot: MemberSnapshot = {
    ...snapshotInputs(state, desired, target, configVersion),
    certificatesOnline: true,
    caPem: certificate.caPem,
    certificatePem: certificate.pem,
    keyFile,
    ...logins,
  };
  // S12: the new one alone only where the member's own data has it; a secondary may not have got there yet.
  const proof =
    logins.nextMonitor === null ? await run(work, name, { kind: 'verifyLogin', as: logins.monitor }) : null;
  if (proof !== null && proof.kind !== 'done') return { outcome: notConfirmed(outcomeOf(proof, {})) };
  await agents.publish(ref(target), snapshot, work.fence);
  const { certificate: given } = target.activated;
  return done({ snapshot: activatedSnapshot(state, desired, name, configVersion, given) });
}

/** A9.4: given as a snapshot, so that it stays through a restart of whatever kind; then taken by the running process. */
async function rotateCertificate(work: Work, name: string, configVersion: number): Promise<Effect> {
  const given = await publish(work, name, configVersion, true);
  const answer = await runAs(work, name, 'clusterAdmin', (as) => ({
    kind: 'rotateCertificates',
    as,
    configVersion,
  }));
  if (answer.kind === 'done') return given;
  const outcome = outcomeOf(answer, {});
  const never = answer.kind === 'refused' && answer.class !== 'transient';
  return { outcome: never && outcome.kind === 'failed' ? { ...outcome, ...NOT_TAKEN } : outcome };
}

/** A definite refusal: the roller goes on with a restart. */
const NOT_TAKEN = { code: 'CertificateNotTaken', retry: 'later' } as const;

function ref({ name, host, serviceId }: MemberState): MemberRef {
  if (host === null || serviceId === null) throw notPlaced(name);
  return { host, serviceId };
}

// ── database ───────────────────────────────────────────────────────────────────────────────────────────────────────

async function command(
  work: Work,
  via: string,
  what: MemberCommand,
  result: Extract<StepOutcome, { kind: 'done' }>['result'] = {},
): Promise<Effect> {
  return { outcome: outcomeOf(await run(work, via, what), result) };
}

function run(work: Work, via: string, what: MemberCommand): Promise<CommandOutcome> {
  const { agents, stepId, fence } = work;
  return agents.run(ref(member(work, via)), what, { timeoutMillis: COMMAND_LIMIT, stepId, fence });
}

/** Under a system user's login; while its password changes, whichever of the old and the new one works (A13.4). */
async function runAs(
  work: Work,
  via: string,
  user: SystemUsername,
  what: (as: Login) => MemberCommand,
): Promise<CommandOutcome> {
  const { credentials, state } = work;
  const answer = await run(work, via, what(await credentials.login(state.uid, user)));
  if (answer.kind !== 'refused' || answer.class !== 'credentials') return answer;
  const next = await credentials.stagedLogin(state.uid, user);
  return next === null ? answer : run(work, via, what(next));
}

async function commandAs(
  work: Work,
  via: string,
  user: SystemUsername,
  what: (as: Login) => MemberCommand,
): Promise<Effect> {
  return { outcome: outcomeOf(await runAs(work, via, user, what), {}) };
}

/** A5.4: credentials need a person, everything else heals by itself or is tried again with growing waits. */
function outcomeOf(
  answer: CommandOutcome,
  result: Extract<StepOutcome, { kind: 'done' }>['result'],
): StepOutcome {
  switch (answer.kind) {
    case 'done':
      return { kind: 'done', result };
    case 'unknown':
      return { kind: 'unknown', message: answer.message };
    case 'refused': {
      const credentials = answer.class === 'credentials';
      const code = credentials ? 'CredentialRepairRequired' : answer.codeName;
      const retry = answer.class === 'transient' ? 'later' : 'never';
      return { kind: 'failed', code, message: answer.message, retry };
    }
    default:
      return unreachable(answer);
  }
}

/** The server waits until the configuration is committed, but no longer than this. */
const RECONFIG_LIMIT = 10_000;

async function reconfig(
  work: Work,
  { via, config, forcedBy }: Extract<Step, { kind: 'reconfig' }>,
): Promise<Effect> {
  const maxTimeMillis = RECONFIG_LIMIT;
  const force = forcedBy === undefined ? {} : { force: true as const };
  return commandAs(work, via, 'clusterAdmin', (as) => ({
    kind: 'reconfig',
    as,
    config,
    maxTimeMillis,
    ...force,
  }));
}

/** Never forced: without a caught-up heir the server refuses, and so do we (S3, S13). */
async function stepDown(work: Work, name: string): Promise<Effect> {
  return commandAs(work, name, 'clusterAdmin', (as) => ({
    kind: 'stepDown',
    as,
    forSeconds: STEP_DOWN_SECONDS,
    catchUpSeconds: CATCH_UP_SECONDS,
  }));
}

async function addShard(work: Work, via: string, shard: string): Promise<Effect> {
  return commandAs(work, via, 'clusterAdmin', (as) => ({ kind: 'addShard', as, shard }));
}

/** How long the end of a migration is waited for in one try; the next pass asks again. */
const BALANCER_LIMIT = 10_000;

async function setBalancer(work: Work, via: string, enabled: boolean): Promise<Effect> {
  const maxTimeMillis = BALANCER_LIMIT;
  const answer = await runAs(work, via, 'clusterAdmin', (as) => ({
    kind: 'setBalancer',
    as,
    enabled,
    maxTimeMillis,
  }));
  const was = answer.kind === 'done' ? answer.result['wasEnabled'] : undefined;
  // An older agent does not say.
  return { outcome: outcomeOf(answer, typeof was === 'boolean' ? { balancerWas: was } : {}) };
}

async function setFcv(work: Work, via: string, version: string): Promise<Effect> {
  const as = await work.credentials.login(work.state.uid, 'clusterAdmin');
  return command(work, via, { kind: 'setFcv', as, version });
}

/**
 * The document asks from now on, as if a person had applied it; one that asks already is left alone. What somebody changed
 * since it was planned is looked at first, so that a controller that stood still turns nothing back (S9).
 */
async function setSuspend({ store, informer, object }: Work, suspend: boolean): Promise<Effect> {
  const latest = await store.get(keyOf(object));
  if (latest === null || latest.metadata.uid !== object.metadata.uid)
    throw new BelayError('NotFound', 'the MongoDB is gone', { retry: 'later' });
  const spec = latest.spec as MongoDBSpec;
  if (spec.suspend === suspend) return done({ generation: latest.metadata.generation });
  if (latest.metadata.generation !== object.metadata.generation)
    throw new BelayError('Conflict', 'the document changed meanwhile', { retry: 'later' });
  const { [KEPT_ANNOTATION]: _, ...annotations } = latest.metadata.annotations;
  const change = { spec: { ...spec, suspend }, ...(suspend ? {} : { annotations }) };
  const changed = await store.update(keyOf(object), change, latest.metadata.resourceVersion);
  if (changed !== null) informer.learn(changed);
  return done({ generation: changed?.metadata.generation ?? latest.metadata.generation });
}

async function createFirstUser(work: Work, via: string): Promise<Effect> {
  const { password } = await work.credentials.login(work.state.uid, USER_ADMIN);
  const user = systemUser(USER_ADMIN, oldestVersion(work.state, work.desired), password);
  return command(work, via, { kind: 'createFirstUser', user });
}

async function reconcileSystemUsers(work: Work, via: string): Promise<Effect> {
  const { desired, state, credentials } = work;
  const users = await Promise.all(
    SYSTEM_USERNAMES.map(async (name) =>
      systemUser(name, oldestVersion(state, desired), (await credentials.login(state.uid, name)).password),
    ),
  );
  const as = await credentials.login(state.uid);
  const what: MemberCommand = {
    kind: 'reconcileUsers',
    as,
    roles: managedRoles(desired),
    users,
    drop: [],
  };
  return command(work, via, what, { usersHash: systemUsersHash({ desired, state }) });
}

/** A13.4: one set; after a crash or a lost answer userAdmin itself may have the old password or the new one. */
async function rotateUsers(work: Work, step: Extract<Step, { kind: 'rotateUsers' }>): Promise<Effect> {
  const { desired, state, credentials } = work;
  const version = oldestVersion(state, desired);
  const users = await Promise.all(
    step.users.map(async (name) => {
      const user = name as SystemUsername;
      const next =
        (await credentials.stagedLogin(state.uid, user)) ?? (await credentials.login(state.uid, user));
      return systemUser(user, version, next.password);
    }),
  );
  return commandAs(work, step.via, USER_ADMIN, (as) => ({
    kind: 'reconcileUsers',
    as,
    roles: [],
    users,
    drop: [],
  }));
}

async function keepLogins({ credentials, state }: Work, users: readonly string[]): Promise<Effect> {
  await credentials.keep(state.uid, users);
  return { ...done({}), also: { secretPrefixesToDelete: [stagedPasswords(state.uid)] } };
}

// ── users of people ────────────────────────────────────────────────────────────────────────────────────────────────

/** B3.3: added or made equal; then confirmed by a login of its own, and only then published (URI-04). */
async function applyUser(work: Work, step: Extract<Step, { kind: 'applyUser' }>): Promise<Effect> {
  const { desired, state, userSecrets } = work;
  const { username, db, roles, passwordRef } = step.user;
  const document = documentOf(work, step.user.uid);
  const password = passwordRef === null ? null : await userSecrets.password(passwordRef);
  if (password === null && db !== EXTERNAL_DB) {
    throw new BelayError('UserPasswordMissing', `the password of ${username} is gone`, { retry: 'later' });
  }
  await holdUser(work, document.object);
  const users = [{ user: username, db, password, roles }];
  const answer = await runAs(work, step.via, USER_ADMIN, (as) => ({
    kind: 'reconcileUsers',
    as,
    roles: [],
    users,
    drop: [],
  }));
  if (answer.kind !== 'done') return { outcome: outcomeOf(answer, {}) };
  if (password !== null) {
    const as = { user: username, db, password };
    const login = await run(work, step.via, { kind: 'verifyLogin', as });
    if (login.kind !== 'done') return { outcome: notConfirmed(outcomeOf(login, {})) };
  }
  await userSecrets.publishConnection(document.object, desired, state);
  const former = state.users.find((u) => u.uid === step.user.uid);
  const rows =
    former === undefined
      ? []
      : await userSecrets.formerRows(document.object, former.connectionSecret ?? null);
  return { ...done({}), also: { secretPrefixesToDelete: rows } };
}

/** A user's own login that fails is that user's trouble: tried again, never a case for the cluster's repair. */
const notConfirmed = (outcome: StepOutcome): StepOutcome =>
  outcome.kind === 'failed' ? { ...outcome, code: 'LoginNotConfirmed', retry: 'later' } : outcome;

function documentOf(work: Work, uid: string): UserObject {
  const document = work.reading.userObjects.find((user) => user.desired.uid === uid);
  if (document !== undefined) return document;
  throw new BelayError('NotFound', 'the MongoDBUser is gone', { retry: 'later' });
}

/** The document may not vanish while the database knows the user (B3.5). */
async function holdUser(work: Work, user: StoredObject): Promise<void> {
  const latest = await work.store.get(keyOf(user));
  if (latest === null || latest.metadata.uid !== user.metadata.uid) {
    throw new BelayError('NotFound', 'the MongoDBUser is gone', { retry: 'later' });
  }
  const { finalizers, deletionTimestamp, resourceVersion } = latest.metadata;
  if (finalizers.includes(USER_FINALIZER)) return;
  if (deletionTimestamp !== null) throw new BelayError('NotFound', 'the MongoDBUser is being deleted');
  const held = await work.store.update(
    keyOf(user),
    { finalizers: [...finalizers, USER_FINALIZER] },
    resourceVersion,
  );
  if (held !== null) work.informer.learn(held);
}

async function dropUser(work: Work, step: Extract<Step, { kind: 'dropUser' }>): Promise<Effect> {
  const drop = [{ user: step.username, db: step.db }];
  return commandAs(work, step.via, USER_ADMIN, (as) => ({
    kind: 'reconcileUsers',
    as,
    roles: [],
    users: [],
    drop,
  }));
}

// ── the end ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The record goes in the same transaction as the finalizer: afterwards nothing of the cluster is left. */
async function forget(work: Work): Promise<Effect> {
  const { object } = work;
  await forgetOperations(work);
  const release = { key: keyOf(object), uid: object.metadata.uid, finalizer: CLUSTER_FINALIZER };
  return {
    ...done({}),
    also: {
      releases: [release],
      forgetState: true,
      secretPrefixesToDelete: [clusterSecrets(work.state.uid)],
    },
  };
}

/** What was asked for of a cluster goes with it: a later one of the same name must not inherit its history. */
async function forgetOperations({ informer, store, object }: Work): Promise<void> {
  for (const operation of informer.all('Operation')) {
    if (!isAbout(operation, object)) continue;
    await store.update(keyOf(operation), { finalizers: [], delete: true }).catch((failure: unknown) => {
      if (!(failure instanceof BelayError && failure.code === 'NotFound')) throw failure;
    });
  }
}
