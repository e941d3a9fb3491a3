/**
 * The half of S13 that is about other people's tasks: whenever something is granted, to a person or to the engine, what is
 * granted of a set at that moment leaves what the mode promises, as the true world has it; a primary that was to hand over
 * has done so; and what is locked by a person is nobody else's, nor made anew elsewhere.
 *
 * What went down a moment ago by itself could not be known yet: such a member counts as it was.
 */
import { type Millis, SECOND } from '../../base/units.ts';
import type { Batch, StoredObject } from '../../engine/ports.ts';
import type { Entry } from '../../maintenance/index.ts';
import { entryOf, isHold } from '../../maintenance/index.ts';
import type { MaintenanceTask } from '../../model/index.ts';
import { type Checker, type Stage, stopIsAskedFor } from '../stage.ts';
import {
  clusterByUid,
  isInUse,
  membersOf,
  objectsOf,
  type Part,
  partOf,
  primaryOf,
  quorumOf,
  setsOf,
  specOf,
  statusOf,
} from '../truth.ts';
import type { World } from '../world.ts';

/** Heartbeats (10 s) and reports together make a death known within this. */
const KNOWN_AFTER: Millis = 15 * SECOND;
/** What a status says is known to every control plane within this. */
const TOLD_AFTER: Millis = 8 * SECOND;
/** A new primary is known within this. */
const LEADER_KNOWN_AFTER: Millis = 5 * SECOND;

/** One grant that is in the store. */
interface Lock {
  readonly id: string;
  readonly entry: Entry;
  /** Services it is about, as `machine/service`. */
  readonly services: ReadonlySet<string>;
}

interface SetNow {
  readonly part: Part;
  /** Service by the address it has in the set's configuration; voters only. */
  readonly voters: ReadonlyMap<string, string | null>;
  readonly healthy: ReadonlySet<string>;
  readonly needed: number;
}

export const locks: Checker = (stage) => {
  const { world, troubled } = stage;
  const known = new Set<string>();
  const badSince = new Map<string, Millis>();
  /** The same, as the statuses in the store say it. */
  const toldSince = new Map<string, Millis>();
  /** When a status last began to call it healthy: what was told of a moment counts until it must be known otherwise. */
  const toldWell = new Map<string, Millis>();
  const leads = new Map<Part, { readonly host: string; readonly since: Millis }>();
  const note = (part: Part): void => {
    const quorum = quorumOf(world, part);
    const { now } = world.timeline;
    for (const host of quorum?.voters ?? []) {
      if (quorum?.healthy.includes(host)) badSince.delete(host);
      else if (!badSince.has(host)) badSince.set(host, now);
    }
    const host = primaryOf(world, part)?.host ?? '';
    if (leads.get(part)?.host !== host) leads.set(part, { host, since: now });
  };
  const noteTold = (object: StoredObject): void => {
    for (const { host, port, health } of statusOf(object)?.members ?? []) {
      const address = `${host}:${port}`;
      if (health === 'healthy') {
        if (toldSince.delete(address)) toldWell.set(address, world.timeline.now);
      } else if (!toldSince.has(address)) toldSince.set(address, world.timeline.now);
    }
  };
  const isOut = (host: string, healthy: ReadonlySet<string>): boolean => {
    const { now } = world.timeline;
    // C5.3: what is told to be unknown or unwell counts as out, however it really is.
    if (now - (toldSince.get(host) ?? now) >= TOLD_AFTER) return true;
    if (healthy.has(host) || now - (toldWell.get(host) ?? Number.NEGATIVE_INFINITY) < KNOWN_AFTER)
      return false;
    const fault = troubled.get(host.split('.')[0] ?? '') ?? Number.NEGATIVE_INFINITY;
    return now - (badSince.get(host) ?? now) >= KNOWN_AFTER && now - fault >= KNOWN_AFTER;
  };
  /** What is wrong with this grant for one set; null: nothing. */
  const exceeds = (lock: Lock, others: readonly Lock[], set: SetNow): string | null => {
    const { mode } = lock.entry;
    const isTaken = (service: string | null, by: readonly Lock[]): boolean =>
      service !== null && by.some(({ services }) => services.has(service));
    const taken: string[] = [];
    const out: string[] = [];
    let own = 0;
    for (const [host, service] of set.voters) {
      if (isTaken(service, [lock])) own++;
      else if (isTaken(service, others)) taken.push(host);
      else if (isOut(host, set.healthy)) out.push(host);
    }
    if (own === 0) return null;
    const left = set.voters.size - own - taken.length - out.length;
    const who = `${[...taken.map((h) => `${h} (granted)`), ...out.map((h) => `${h} (down)`)].join(', ')}`;
    if (left < set.needed)
      return `${left} of ${set.voters.size} voters are left, ${set.needed} are needed; ${who}`;
    if (mode === 'strong' && own + taken.length > 1)
      return `strong allows one, ${own + taken.length} are granted; ${who}`;
    return null;
  };
  const judge = (plane: string, lock: Lock, all: readonly Lock[]): void => {
    const others = all.filter(({ id }) => id !== lock.id);
    const { entry } = lock;
    // The engine forces only what a person asked to be down.
    if (entry.mode === 'force' && !isHold(entry)) return;
    // Who took a vote a moment ago took it from a set that had one more as far as anybody could know.
    if (world.timeline.now - stage.storm.votesChangedAt < KNOWN_AFTER) return;
    for (const part of partsOf(world, lock)) {
      if (stopIsAskedFor(stage, part) || !isInUse(world, part)) continue;
      const set = setNow(world, part);
      const why = set === null ? null : exceeds(lock, others, set);
      if (why !== null)
        world.narrator.fail(
          'S13',
          `${plane} grants ${nameOf(entry)} ${lock.id} (${entry.mode}) in ${part}: ${why}`,
        );
      if (entry.stepDown === true && set !== null) judgeLeader(plane, lock, part);
    }
  };
  const judgeLeader = (plane: string, { entry, services }: Lock, part: Part): void => {
    const primary = primaryOf(world, part);
    const there = membersOf(world, part).some(
      ({ machine, record, mongod }) => mongod === primary && services.has(`${machine.name}/${record.id}`),
    );
    const since = leads.get(part);
    const longAgo =
      since?.host === primary?.host && world.timeline.now - (since?.since ?? 0) > LEADER_KNOWN_AFTER;
    if (primary !== null && there && longAgo && canHandOver(world, part))
      world.narrator.fail(
        'S13',
        `${plane} grants ${nameOf(entry)} though ${primary.host} leads ${part} there`,
      );
  };
  const noteAll = (): void => {
    for (const object of objectsOf(world, 'MongoDB')) for (const part of setsOf(object)) note(part);
  };
  return {
    second: () => {
      const objects = objectsOf(world, 'MongoDB');
      for (const object of objects) noteTold(object);
      noteAll();
      // An address that nobody has any more may come to be another member's.
      const sets = objects.flatMap(setsOf);
      keepOnly(
        badSince,
        sets.flatMap((part) => quorumOf(world, part)?.voters ?? []),
      );
      const told = objects.flatMap((object) => statusOf(object)?.members ?? []);
      keepOnly(
        toldSince,
        told.map(({ host, port }) => `${host}:${port}`),
      );
    },
    // A primary may live for less than a second: its followers were well meanwhile, and were told to be.
    member: (_, outputs) => {
      if (outputs.some(({ kind }) => kind === 'stateChanged')) noteAll();
    },
    committed: (plane, batch) => {
      if (!isDecision(batch)) return;
      for (const object of objectsOf(world, 'MongoDB')) noteTold(object);
      const all = locksNow(world);
      for (const lock of all) {
        if (known.has(lock.id)) continue;
        known.add(lock.id);
        if (lock.entry.mode === 'force') forced(stage, lock);
        judge(plane, lock, all);
      }
    },
    deed: (_, deed) => {
      if (deed.kind !== 'operate' || deed.operation.kind !== 'import') return;
      const { owner } = deed.operation.spec;
      const place = owner === null ? undefined : lockedPlace(world, owner.clusterUid, owner.member);
      if (place !== undefined)
        world.narrator.fail('S13', `${owner?.member} is made anew while ${place} is in maintenance`);
    },
  };
};

function keepOnly(since: Map<string, Millis>, addresses: readonly string[]): void {
  const there = new Set(addresses);
  for (const address of since.keys()) if (!there.has(address)) since.delete(address);
}

const isDecision = (batch: Batch): boolean => batch.state?.uid === 'maintenance';

const nameOf = (entry: Entry): string => entry.uid ?? entry.id;

/** What a person forces goes wrong like a fault. */
function forced(stage: Stage, { entry, services }: Lock): void {
  if (isHold(entry)) return;
  const longest = Math.max(0, ...entry.held.map(({ duration }) => duration));
  for (const service of services)
    stage.troubled.set(service.split('/')[0] ?? '', stage.world.timeline.now + longest);
}

// ── the store ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** All grants that are in the store now: people's from their tasks, the engine's from the authority's own row. */
function locksNow(world: World): readonly Lock[] {
  const tasks = objectsOf(world, 'MaintenanceTask').flatMap(({ metadata, spec, status }) => {
    const document = spec as MaintenanceTask['spec'];
    return entryOf(metadata.name, document, status as NonNullable<MaintenanceTask['status']> | null) ?? [];
  });
  const head = JSON.parse(world.installation.disk.states.get('maintenance')?.text ?? '{"holds":[]}') as {
    readonly holds: readonly Entry[];
  };
  return [...tasks, ...head.holds].flatMap((entry) =>
    entry.held
      .filter(({ action }) => action.type === 'lock')
      .map(({ id, action: { scope } }) => ({ id, entry, services: servicesOf(world, scope) })),
  );
}

function servicesOf(world: World, scope: Entry['held'][number]['action']['scope']): ReadonlySet<string> {
  const found = new Set<string>();
  for (const machine of world.machines.values()) {
    if (scope.kind === 'host' && scope.host !== machine.name) continue;
    for (const record of machine.disk.services.values()) {
      const isIt =
        scope.kind === 'host' || (scope.kind === 'node' && scope.node === `default/${record.owner?.member}`);
      if (isIt) found.add(`${machine.name}/${record.id}`);
    }
  }
  return found;
}

// ── the true world ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Sets that have a member among what is locked. */
function partsOf(world: World, { services }: Lock): ReadonlySet<Part> {
  const parts = new Set<Part>();
  for (const { name, disk } of world.machines.values())
    for (const record of disk.services.values())
      if (record.owner !== null && services.has(`${name}/${record.id}`)) parts.add(partOf(record.owner));
  return parts;
}

function setNow(world: World, part: Part): SetNow | null {
  const quorum = quorumOf(world, part);
  if (quorum === null) return null;
  const services = new Map(
    membersOf(world, part).map(({ machine, record }) => [
      `${record.address}:${record.port}`,
      `${machine.name}/${record.id}`,
    ]),
  );
  const voters = new Map(quorum.voters.map((host) => [host, services.get(host) ?? null]));
  return { part, voters, healthy: new Set(quorum.healthy), needed: quorum.needed };
}

/** Somebody else could lead. */
function canHandOver(world: World, part: Part): boolean {
  const primary = primaryOf(world, part);
  const quorum = quorumOf(world, part);
  const rows = primary?.machine.config?.members ?? [];
  return rows.some(
    ({ host, priority }) => priority > 0 && host !== primary?.host && quorum?.healthy.includes(host) === true,
  );
}

/** The locked machine on which a member has its place; undefined: none, or it is to move. */
function lockedPlace(world: World, uid: string, member: string): string | undefined {
  const object = clusterByUid(world, uid);
  if (object === null || object.metadata.deletionTimestamp !== null || specOf(object).suspend)
    return undefined;
  const places = membersOf(world, uid).filter(({ record }) => record.owner?.member === member);
  if (places.length === 0) return undefined;
  const moved = objectsOf(world, 'Operation').some(({ spec }) => {
    const { type = '' } = spec as { readonly type?: string };
    return type === 'Replace' || type === 'Move';
  });
  if (moved) return undefined;
  const held = locksNow(world).filter(({ entry }) => !isHold(entry));
  return places.find(({ machine, record }) =>
    held.some(({ services }) => services.has(`${machine.name}/${record.id}`)),
  )?.machine.name;
}
