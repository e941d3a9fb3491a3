/** The balancer: one move at a time, by the primary of the config servers, unless it was stopped. */
import { type Document, Long } from 'bson';
import type { Millis } from '../../base/units.ts';
import { fail } from '../commands/errors.ts';
import { storedFcv } from '../process/compatibility.ts';
import { type BalancedShard, IMBALANCE_CHUNKS, planBalance } from './balance.ts';
import { ownersOf, type RoutingTable } from './chunks.ts';
import { moveOneRange } from './config-move.ts';
import type { ConfigService } from './config-service.ts';
import { balancerRuns } from './config-shards.ts';
import { balancerSetting, COLLECTIONS, chunkBytes, SETTINGS } from './metadata.ts';
import { compareKeys, keyDocument, keyOfDocument, patternDocument } from './shard-key.ts';

const MIB = 1024 * 1024;
/** Moves in one round; the rest comes with the next. */
const MOVES_PER_ROUND = 4;

/** The balancer of one process. */
export class Balancer {
  readonly #config: ConfigService;
  #rounds = 0;
  #inRound = false;

  constructor(config: ConfigService) {
    this.#config = config;
  }

  /** One round, if it may run. Failures end the round; the next one tries again. */
  async round(): Promise<void> {
    if (this.#inRound || !this.#mayRun() || this.#config.shards().length < 2) return;
    this.#inRound = true;
    try {
      let moves = 0;
      while (moves < MOVES_PER_ROUND && (await this.#config.exclusive(() => this.#step()))) moves += 1;
      this.#rounds += 1;
    } finally {
      this.#inRound = false;
    }
  }

  #mayRun(): boolean {
    return (
      this.#config.isPrimary &&
      balancerRuns(this.#config) &&
      storedFcv(this.#config.node).targetVersion === undefined
    );
  }

  /** The first useful move of any collection; false when there is none. */
  async #step(): Promise<boolean> {
    if (!this.#mayRun()) return false;
    for (const table of this.#config.tables()) {
      const fixed = this.#config.documents.get(COLLECTIONS, table.ns)?.['noBalance'] === true;
      if (!fixed && (await this.#balance(table))) return true;
    }
    return false;
  }

  async #balance(table: RoutingTable): Promise<boolean> {
    const config = this.#config;
    const size = chunkBytes(config.documents.get(SETTINGS, 'chunksize'));
    const step = planBalance(table.chunks, await this.#shards(table), size);
    if (step === null) return false;
    if (step.kind === 'move') {
      await moveOneRange(config, table.ns, step, step.to);
      return true;
    }
    const { at } = await config.tell(step.from, {
      _simRangeBytes: 1,
      ns: table.ns,
      key: patternDocument(table.pattern),
      min: keyDocument(table.pattern, step.min),
      max: keyDocument(table.pattern, step.max),
      bytes: size,
    });
    const max = at === null ? step.max : keyOfDocument(table.pattern, at as Document);
    if (compareKeys(step.min, max) >= 0) return false;
    await moveOneRange(config, table.ns, { min: step.min, max }, step.to);
    return true;
  }

  #shards(table: RoutingTable): Promise<readonly BalancedShard[]> {
    const owners = new Set(ownersOf(table.chunks));
    return Promise.all(
      this.#config.shards().map(async ({ _id, draining }) => {
        const name = String(_id);
        const bytes = owners.has(name)
          ? Number((await this.#config.tell(name, { _simDescribe: 1, ns: table.ns }))['bytes'])
          : 0;
        return { name, draining: draining === true, bytes };
      }),
    );
  }

  /** balancerStart and balancerStop. A stop waits for the round under way. */
  async set(on: boolean): Promise<Document> {
    await this.#config.change(({ put }) => {
      const known = this.#config.documents.get(SETTINGS, 'balancer');
      put(SETTINGS, { ...known, ...balancerSetting(on) });
      put(SETTINGS, { _id: 'automerge', enabled: on });
    });
    if (!on) await this.#config.exclusive(() => Promise.resolve());
    return {};
  }

  status(term: Long): Document {
    return {
      mode: balancerRuns(this.#config) ? 'full' : 'off',
      inBalancerRound: this.#inRound,
      numBalancerRounds: Long.fromNumber(this.#rounds),
      term,
    };
  }

  /** balancerCollectionStatus: whether a collection is even enough. */
  async collectionStatus(ns: string): Promise<Document> {
    const table = this.#config.table(ns);
    if (table === null) throw fail(118, `Namespace ${ns} is not sharded`);
    const size = chunkBytes(this.#config.documents.get(SETTINGS, 'chunksize'));
    const shards = await this.#shards(table);
    const chunkSize = size / MIB;
    if (shards.some(({ name, draining }) => draining && ownersOf(table.chunks).includes(name)))
      return { chunkSize, balancerCompliant: false, firstComplianceViolation: 'draining' };
    if (planBalance(table.chunks, shards, size) === null) return { chunkSize, balancerCompliant: true };
    return {
      chunkSize,
      balancerCompliant: false,
      firstComplianceViolation: 'chunksImbalance',
      details: { threshold: IMBALANCE_CHUNKS * size },
    };
  }
}

/** How long balancerStop waits by default. */
export const STOP_WAIT: Millis = 60_000;
