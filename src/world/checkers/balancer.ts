/**
 * S14: What we stop we start again (balancer, PITR, changed votes), also after failures.
 *
 * Of the balancer the world sees three things. No voter of a sharded cluster is restarted while it may move chunks or still
 * does (A8.3), unless a person woke it so lately that whoever decided on the restart could not know. Once all is settled it is
 * as people last wanted it, whatever was stopped for our own changes in between. And what a person switched off by hand stays
 * off, as far as anybody could know: a switch that no majority had may be rolled back; while it rests because of us, a second
 * "off" by another hand cannot be told from our own; and an answer that was lost leaves open what it was before, also who had
 * switched it on when a stop without an answer stopped it.
 */
import { type Millis, SECOND } from '../../base/units.ts';
import type { State } from '../../clusters/index.ts';
import type { StoredObject } from '../../engine/ports.ts';
import type { Operation } from '../../model/index.ts';
import type { Mongod } from '../mongod.ts';
import type { Hand } from '../shardedStorm.ts';
import { type Checker, type Stage, stopIsAskedFor } from '../stage.ts';
import {
  clusterByUid,
  clusterNamed,
  configOf,
  objectsOf,
  partOf,
  primaryOf,
  specOf,
  statusOf,
  userSetOf,
} from '../truth.ts';
import type { World } from '../world.ts';

/** What a router told may be that old when a change begins. */
const READING: Millis = 45 * SECOND;

/** One cluster's balancer as it ought to be. */
interface Wanted {
  /** As people last wanted it; null: nobody can say. */
  on: boolean | null;
  /** What the AutoMerger ought to be where the balancer is on; null: nobody can say. */
  autoMerge: boolean | null;
  /** The last rest was begun by one stop that was answered: what was before is known for certain. */
  sure: boolean;
  /** It rests because of us since then; null: it does not. */
  restsSince: Millis | null;
  /** The last stop of this rest was answered. */
  answered: boolean;
  /** When a person last switched it by hand, how, and what is wanted since. */
  handAt: Millis;
  hand: Hand | null;
  byHand: boolean | null;
  /** When a person's operation last reached a router. Its end may be told much later, after a hand that came in between. */
  askedAt: Millis;
}

const untouched = (): Wanted => ({
  on: true,
  autoMerge: true,
  sure: true,
  restsSince: null,
  answered: true,
  handAt: Number.NEGATIVE_INFINITY,
  hand: null,
  byHand: null,
  askedAt: Number.NEGATIVE_INFINITY,
});

export const balancer: Checker = (stage) => {
  const { world, storm } = stage;
  const all = new Map<string, Wanted>();
  const told = new Set<string>();
  /** When a restart of a member was last decided on. */
  const decided = new Map<string, Millis>();
  let hands = 0;
  const of = (uid: string): Wanted => {
    const known = all.get(uid) ?? untouched();
    all.set(uid, known);
    return known;
  };
  const listen = (): void => {
    for (; hands < storm.hands.length; hands++) {
      const hand = storm.hands[hands] as Hand;
      const { uid, on, at, autoMerge } = hand;
      const wanted = of(uid);
      const isHeard = on ? wanted.answered || !losesAnswers(stage) : wanted.restsSince === null;
      wanted.byHand = isHeard ? on : null;
      wanted.on = wanted.byHand;
      wanted.autoMerge = wanted.restsSince === null ? autoMerge : null;
      wanted.handAt = at;
      wanted.hand = hand;
    }
    for (const operation of objectsOf(world, 'Operation')) hear(world, operation, told, of);
  };
  return {
    committed: (_, { state, intents = [] }) => {
      for (const { clusterUid, target } of intents)
        decided.set(`${clusterUid}/${target}`, world.timeline.now);
      const record = state?.value as State | null | undefined;
      if (state === undefined || record == null) return;
      listen();
      const wanted = of(state.uid);
      if (record.balancer == null) {
        if (!wanted.sure) wanted.autoMerge = null;
        wanted.restsSince = null;
      } else if (wanted.restsSince === null) {
        wanted.restsSince = world.timeline.now;
        const fresh = world.timeline.now - wanted.handAt < READING;
        if (fresh && losesAnswers(stage)) wanted.on = null;
      }
      wanted.answered = record.balancer == null || record.balancer.confirmed;
      // That a start is on its way says nothing of what was before the rest.
      if (record.balancer?.waking === true) return;
      wanted.sure = record.balancer == null || (record.balancer.confirmed && record.balancer.again !== true);
    },
    second: listen,
    deed: (machine, deed) => {
      const asked = deed.kind === 'run' ? /^(.*?)\/switchBalancer\//.exec(deed.stepId)?.[1] : undefined;
      if (asked !== undefined) of(asked).askedAt = world.timeline.now;
      if (deed.kind !== 'stop' || deed.why !== 'restart' || deed.record?.owner == null) return;
      listen();
      const { owner } = deed.record;
      const object = clusterByUid(world, owner.clusterUid);
      const config = object === null ? null : shardedConfig(world, object);
      const { process } = deed.run;
      if (config === null || process.kind === 'router' || process.phase !== 'listening') return;
      const row = configOf(world, partOf(owner))?.members.find(({ host }) => host === process.host);
      if (row === undefined || row.votes === 0 || stopIsAskedForDown(stage, owner.clusterUid)) return;
      const { handAt, restsSince } = of(owner.clusterUid);
      const at = decided.get(`${owner.clusterUid}/${owner.member}`) ?? world.timeline.now;
      // Whoever decided on it could not know yet, or what moves now would not.
      if (handAt >= (restsSince ?? 0) && at < handAt + READING) return;
      const moves = config.moving !== null;
      if (config.data.balancerOn || moves)
        world.narrator.fail(
          'S14',
          `${machine.name} restarts ${owner.member} while ${moves ? 'a chunk moves' : 'the balancer runs'}`,
        );
    },
    end: () => {
      listen();
      for (const object of objectsOf(world, 'MongoDB')) judge(world, object, of(object.metadata.uid));
    },
  };
};

/** A deletion or suspension takes everything down, chunks on their way or not. */
function stopIsAskedForDown(stage: Stage, uid: string): boolean {
  const object = clusterByUid(stage.world, uid);
  if (object === null || object.metadata.deletionTimestamp !== null || specOf(object).suspend) return true;
  return stage.downAsked.has(uid) && stopIsAskedFor(stage, uid);
}

/** Answers get lost here, or control planes die before they have written them down. */
const losesAnswers = ({ scenario: { rates, faults } }: Stage): boolean =>
  rates.answerLost + rates.requestLost + rates.shardingLost + rates.shardingDeaths + rates.deaths > 0 ||
  rates.storeAnswerLost > 0 ||
  faults.length > 0;

/** What an operation that ended says about the balancer. */
function hear(world: World, operation: StoredObject, told: Set<string>, of: (uid: string) => Wanted): void {
  const { type, mongodbResourceRef } = operation.spec as Operation['spec'];
  if (type !== 'StartBalancer' && type !== 'StopBalancer') return;
  const state = (operation.status as Operation['status'])?.state;
  const uid = clusterNamed(world, mongodbResourceRef.name)?.metadata.uid;
  if (uid === undefined || state === undefined || told.has(operation.metadata.uid)) return;
  const wanted = of(uid);
  if (state === 'Succeeded') {
    // A router that does not reach the config servers carries it out when it does: which of the two came last nobody can say.
    if (wanted.handAt > wanted.askedAt) [wanted.on, wanted.autoMerge] = [null, null];
    else wanted.on = wanted.autoMerge = type === 'StartBalancer';
  }
  // It may have been sent before it was called off.
  else if (state === 'Cancelled' || state === 'Running') [wanted.on, wanted.autoMerge] = [null, null];
  if (state !== 'Running' && state !== 'Waiting') told.add(operation.metadata.uid);
}

/** The primary of a sharded cluster's config servers; null: there is none, or no shard yet. */
function shardedConfig(world: World, object: StoredObject): Mongod | null {
  if (specOf(object).type !== 'ShardedCluster') return null;
  const config = primaryOf(world, userSetOf(object));
  return config === null || config.data.shards.size === 0 ? null : config;
}

function judge(world: World, object: StoredObject, wanted: Wanted): void {
  const config = shardedConfig(world, object);
  if (config === null || statusOf(object)?.phase !== 'Ready') return;
  // A switch that only one config server had is lost with it, and nobody wants it again.
  if (wanted.hand?.kept === false && wanted.handAt > wanted.askedAt) return;
  const { balancerOn, autoMerge } = config.data;
  const say = (what: string, is: boolean): void =>
    world.narrator.fail(
      'S14',
      `the ${what} of ${object.metadata.name} is ${is ? 'on' : 'off'} and was ${is ? 'off' : 'on'}`,
    );
  if (wanted.on !== null && balancerOn !== wanted.on) say('balancer', balancerOn);
  else if (balancerOn && wanted.autoMerge !== null && autoMerge !== wanted.autoMerge)
    say('AutoMerger', autoMerge);
}
