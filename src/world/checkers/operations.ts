/**
 * A13: what an operation says of itself is true. Once ended it stays as it ended; one that succeeded did in the true world
 * what it was asked for; one that was cancelled or failed before it began says so.
 */
import type { StoredObject } from '../../engine/ports.ts';
import { type Operation, seriesOf } from '../../model/index.ts';
import type { Mongod } from '../mongod.ts';
import type { Checker } from '../stage.ts';
import {
  clusterNamed,
  configOf,
  membersOf,
  objectsOf,
  primaryOf,
  setsOf,
  type TrueMember,
  userSetOf,
} from '../truth.ts';
import type { World } from '../world.ts';

type State = NonNullable<NonNullable<Operation['status']>['state']>;
const ENDED: readonly State[] = ['Succeeded', 'Failed', 'Cancelled', 'Superseded'];

/** What there was when it was asked for. */
interface Before {
  readonly processes: ReadonlyMap<string, unknown>;
  readonly places: ReadonlyMap<string, string>;
  readonly passwords: ReadonlyMap<string, string | null>;
}

export const operations: Checker = ({ world, storm }) => {
  const before = new Map<string, Before>();
  const ended = new Map<string, State>();
  const look = (): void => {
    for (const operation of objectsOf(world, 'Operation')) {
      const { uid, name } = operation.metadata;
      const target = clusterOf(world, operation);
      if (target === null) continue;
      if (!before.has(uid)) before.set(uid, remember(world, target));
      const state = (operation.status as Operation['status'])?.state;
      const known = ended.get(uid);
      if (known !== undefined && state !== known)
        world.narrator.fail('A13', `${name} had ended as ${known} and is ${state}`);
      if (state === undefined || !ENDED.includes(state) || known !== undefined) continue;
      ended.set(uid, state);
      const then = before.get(uid) as Before;
      const why = state === 'Succeeded' && storm.meddled.size === 0 ? untrue(world, operation, then) : null;
      if (why !== null) world.narrator.fail('A13', `${name} is called Succeeded though ${why}`);
    }
  };
  return { second: look, committed: look };
};

function clusterOf(world: World, operation: StoredObject): StoredObject | null {
  return clusterNamed(world, (operation.spec as Operation['spec']).mongodbResourceRef.name);
}

function remember(world: World, target: StoredObject): Before {
  const members = membersOf(world, target.metadata.uid);
  const named = <T>(value: (member: TrueMember) => T): ReadonlyMap<string, T> =>
    new Map(members.map((member) => [member.record.owner?.member ?? '', value(member)]));
  const users = primaryOf(world, userSetOf(target))?.data.users.values() ?? [];
  return {
    processes: named(({ mongod, router }) => mongod ?? router),
    places: named(({ machine }) => machine.name),
    passwords: new Map([...users].map(({ name, password }) => [name, password])),
  };
}

const isOut = (mongod: Mongod | null): boolean => mongod?.state === 'REMOVED';

/** Why an operation that is called Succeeded is not so; null: it is, as far as can be seen. */
function untrue(world: World, operation: StoredObject, before: Before): string | null {
  const spec = operation.spec as Operation['spec'];
  const target = clusterOf(world, operation);
  if (target === null) return null;
  const members = membersOf(world, target.metadata.uid);
  const sets = setsOf(target);
  switch (spec.type) {
    case 'Restart': {
      const idle = members.find(({ record, mongod, router }) => {
        const name = record.owner?.member ?? '';
        const asked = spec.members.length === 0 || spec.members.includes(name);
        const process = mongod ?? router;
        return asked && process !== null && before.processes.get(name) === process;
      });
      return idle === undefined ? null : `${idle.record.hostname} was not restarted`;
    }
    case 'Replace':
    case 'Move': {
      const place = before.places.get(spec.member);
      const old = members.find(({ record }) => record.owner?.member === spec.member);
      const address = old === undefined ? '' : `${old.record.address}:${old.record.port}`;
      const inSet = sets.some((set) => configOf(world, set)?.members.some(({ host }) => host === address));
      if (inSet) return `${spec.member} is still a member, on ${place}`;
      return null;
    }
    case 'RotateUsers': {
      const users = primaryOf(world, userSetOf(target))?.data.users;
      const same = [...before.passwords].find(
        ([name, password]) =>
          /^admin\.(userAdmin|clusterAdmin|clusterMonitor|backup)$/.test(name) &&
          (spec.users.length === 0 || spec.users.includes(name.slice('admin.'.length))) &&
          password !== null &&
          users?.get(name)?.password === password,
      );
      return same === undefined ? null : `${same[0]} has the password it had`;
    }
    case 'RaiseFCV': {
      for (const set of sets) {
        const primary = primaryOf(world, set);
        if (primary === null || spec.version !== undefined) continue;
        const own = seriesOf(primary.options.version);
        if (primary.data.fcv !== own)
          return `${primary.host} of series ${own} has compatibility version ${primary.data.fcv}`;
      }
      return null;
    }
    case 'Suspend':
      // What is left of a replaced member on a host that was away is in nobody's way.
      return members.some(({ mongod, router }) => (mongod ?? router) !== null && !isOut(mongod))
        ? 'members still run'
        : null;
    default:
      return null;
  }
}
