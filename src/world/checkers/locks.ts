/**
 * The half of S13 that is about other people's tasks: whenever something is granted, to a person or to the engine, what is
 * granted of a set at that moment leaves what the mode promises, as the true world has it; a primary that was to hand over
 * has done so; and what is locked by a person is nobody else's, nor made anew elsewhere.
 *
 * What went down a moment ago by itself could not be known yet: such a member counts as it was.
 */
import type { Batch } from '../../engine/ports.ts';
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
import { Deaths, Leaders, Told, votesJustChanged } from './known.ts';

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

/** What everybody could know of members when something is granted. */
interface Known {
  readonly deaths: Deaths;
  readonly told: Told;
  readonly leaders: Leaders;
}

export const locks: Checker = (stage) => {
  const { world } = stage;
  const seen = new Set<string>();
  const known: Known = { deaths: new Deaths(stage), told: new Told(world), leaders: new Leaders(world) };
  const lookAtSets = (): void => {
    for (const part of objectsOf(world, 'MongoDB').flatMap(setsOf)) {
      known.deaths.look(part);
      known.leaders.look(part);
    }
  };
  const lookAtStatuses = (): void => {
    for (const object of objectsOf(world, 'MongoDB')) known.told.look(object);
  };
  return {
    second: () => {
      lookAtStatuses();
      lookAtSets();
      const objects = objectsOf(world, 'MongoDB');
      known.deaths.keepOnly(objects.flatMap(setsOf).flatMap((part) => quorumOf(world, part)?.voters ?? []));
      const told = objects.flatMap((object) => statusOf(object)?.members ?? []);
      known.told.keepOnly(told.map(({ host, port }) => `${host}:${port}`));
    },
    // A primary may live for less than a second: its followers were well meanwhile, and were told to be.
    member: (_, outputs) => {
      if (outputs.some(({ kind }) => kind === 'stateChanged')) lookAtSets();
    },
    committed: (plane, batch) => {
      if (!isDecision(batch)) return;
      lookAtStatuses();
      const all = locksNow(world);
      for (const lock of all) {
        if (seen.has(lock.id)) continue;
        seen.add(lock.id);
        if (lock.entry.mode === 'force') forced(stage, lock);
        judge(stage, known, plane, lock, all);
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

// ── a grant ────────────────────────────────────────────────────────────────────────────────────────────────────────

function judge(stage: Stage, known: Known, plane: string, lock: Lock, all: readonly Lock[]): void {
  const { world } = stage;
  const { entry } = lock;
  // The engine forces only what a person asked to be down.
  if (entry.mode === 'force' && !isHold(entry)) return;
  // Who took a vote a moment ago took it from a set that had one more as far as anybody could know.
  if (votesJustChanged(stage)) return;
  const others = all.filter(({ id }) => id !== lock.id);
  for (const part of partsOf(world, lock)) {
    if (stopIsAskedFor(stage, part) || !isInUse(world, part)) continue;
    const set = setNow(world, part);
    if (set === null) continue;
    const why = exceeds(lock, others, set, known);
    if (why !== null)
      world.narrator.fail(
        'S13',
        `${plane} grants ${nameOf(entry)} ${lock.id} (${entry.mode}) in ${part}: ${why}`,
      );
    if (entry.stepDown === true) judgeLeader(world, known, plane, lock, part);
  }
}

/** What is wrong with this grant for one set; null: nothing. */
function exceeds(lock: Lock, others: readonly Lock[], set: SetNow, known: Known): string | null {
  const isTaken = (service: string | null, by: readonly Lock[]): boolean =>
    service !== null && by.some(({ services }) => services.has(service));
  const taken: string[] = [];
  const out: string[] = [];
  let own = 0;
  for (const [host, service] of set.voters) {
    if (isTaken(service, [lock])) own++;
    else if (isTaken(service, others)) taken.push(host);
    else if (isOut(host, set, known)) out.push(host);
  }
  if (own === 0) return null;
  const left = set.voters.size - own - taken.length - out.length;
  const who = [...taken.map((h) => `${h} (granted)`), ...out.map((h) => `${h} (down)`)].join(', ');
  if (left < set.needed)
    return `${left} of ${set.voters.size} voters are left, ${set.needed} are needed; ${who}`;
  if (lock.entry.mode === 'strong' && own + taken.length > 1)
    return `strong allows one, ${own + taken.length} are granted; ${who}`;
  return null;
}

function isOut(host: string, { healthy }: SetNow, { deaths, told }: Known): boolean {
  // C5.3: what is told to be unknown or unwell counts as out, however it really is.
  if (told.isOut(host)) return true;
  return !healthy.has(host) && !told.isJustWell(host) && !deaths.isNews(host);
}

function judgeLeader(world: World, { leaders }: Known, plane: string, lock: Lock, part: Part): void {
  const primary = primaryOf(world, part);
  if (primary === null || !leaders.isKnown(part, primary.host) || !canHandOver(world, part)) return;
  const isLocked = membersOf(world, part).some(
    ({ machine, record, mongod }) => mongod === primary && lock.services.has(`${machine.name}/${record.id}`),
  );
  if (isLocked)
    world.narrator.fail(
      'S13',
      `${plane} grants ${nameOf(lock.entry)} though ${primary.host} leads ${part} there`,
    );
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
