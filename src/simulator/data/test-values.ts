/** Test helpers: arbitrary BSON values and documents, and a store with a running clock. */
import {
  Binary,
  BSONRegExp,
  BSONSymbol,
  Decimal128,
  type Document,
  Double,
  Int32,
  Long,
  MaxKey,
  MinKey,
  ObjectId,
  Timestamp,
} from 'bson';
import fc from 'fast-check';
import { type DataStore, type OpTime, ServerError, type WriteContext } from '../contracts.ts';
import { plain } from './bson.ts';

// One seed for all properties: a failure repeats.
fc.configureGlobal({ seed: 20_240_229 });

const numbers: fc.Arbitrary<unknown> = fc.oneof(
  fc.integer({ min: -3, max: 3 }).map((value) => new Int32(value)),
  fc.integer().map((value) => new Int32(value)),
  fc.integer({ min: -3, max: 3 }).map((value) => Long.fromNumber(value)),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((value) => Long.fromBigInt(value)),
  fc
    .constantFrom(0.5, 1, -1, 0, -0, 2 ** 53, 1e300, Number.NaN, Infinity, -Infinity)
    .map((value) => new Double(value)),
  fc.double().map((value) => new Double(value)),
  fc
    .constantFrom('0.5', '1', '1.0', '0', '-0', '9007199254740993', '1E+6000', 'NaN', 'Infinity', '0.1')
    .map((value) => Decimal128.fromString(value)),
);

const scalars: fc.Arbitrary<unknown> = fc.oneof(
  { arbitrary: numbers, weight: 4 },
  fc.string({ maxLength: 4 }),
  fc.constantFrom('a', 'ä', 'A', '\ue000', '\u{1f600}'),
  fc.constant(null),
  fc.boolean(),
  fc.constant(new BSONSymbol('a')),
  fc.integer({ min: 0, max: 3 }).map((value) => new Date(value)),
  fc.constantFrom('000000000000000000000001', '00000000000000000000000f').map((hex) => new ObjectId(hex)),
  fc.uint8Array({ maxLength: 3 }).map((bytes) => new Binary(bytes, bytes[0] === 0 ? 5 : 0)),
  fc.integer({ min: 0, max: 2 }).map((i) => new Timestamp({ t: 1, i })),
  fc.constantFrom('a', 'b').map((pattern) => new BSONRegExp(pattern, '')),
  fc.constantFrom(new MinKey(), new MaxKey()),
);

const names = fc.constantFrom('a', 'b', 'c', 'd');

/** Any canonical BSON value, a few levels deep. */
export const values: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 2 },
    { arbitrary: scalars, weight: 5 },
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(names, tie('value'), { maxKeys: 3 }).map((fields) => ({ ...fields })),
  ),
})).value;

/** Documents without `_id`. */
export const documents: fc.Arbitrary<Document> = fc
  .dictionary(names, values, { maxKeys: 4 })
  .map((fields) => ({ ...fields }));

/** A write context whose clock moves by one with every write. */
export function contextWithClock(term = 1, start = 0): WriteContext & { last(): OpTime } {
  let increment = start;
  const optime = (): OpTime => ({ ts: new Timestamp({ t: 100, i: increment }), t: Long.fromNumber(term) });
  return {
    stamp: () => {
      increment += 1;
      return optime();
    },
    wall: new Date(1_700_000_000_000),
    last: optime,
  };
}

/** Everything a store holds that must survive: collections, documents in order, indexes, log, local documents. */
export function contents(store: DataStore, localKeys: readonly string[] = []): unknown {
  return {
    collections: store.databases().map((db) => [
      db,
      store.collections(db).map((info) => ({
        ...info,
        uuid: String(info.uuid),
        documents: store.find(`${db}.${info.name}`, {}),
        indexes: store.indexes(`${db}.${info.name}`),
        bytes: store.sizeBytes(`${db}.${info.name}`),
      })),
    ]),
    log: store.oplogAfter(null, Number.MAX_SAFE_INTEGER),
    last: store.lastApplied(),
    local: localKeys.map((key) => [key, store.getLocal(key)]),
  };
}

/** The server error an action is refused with. */
export function refused(action: () => unknown): ServerError {
  try {
    action();
  } catch (error) {
    if (error instanceof ServerError) return error;
    throw error;
  }
  throw new Error('not refused');
}
/** Documents found, as plain values. */
export const read = (
  store: Pick<DataStore, 'find'>,
  ns: string,
  filter: Document = {},
  rest: Document = {},
) => store.find(ns, { filter, ...rest }).map((document) => plain(document) as Document);
/** An update statement for one document. */
export const set = (filter: Document, update: Document, rest: Document = {}) => ({
  filter,
  update,
  multi: false,
  upsert: false,
  ...rest,
});

type Clock = ReturnType<typeof contextWithClock>;

/** Random writes of all kinds, by small numbers. */
export function act(store: DataStore, clock: Clock, [kind, n]: readonly [number, number]): void {
  const ns = `db.c${n % 2}`;
  const other = `db.c${(n + 1) % 2}`;
  const actions = [
    () => store.insert(ns, { _id: n, u: n % 5, tags: [n] }, clock),
    () => store.update(ns, set({ _id: n }, { $inc: { count: 1 }, $push: { tags: n } }), clock),
    () =>
      store.update(ns, set({ u: n % 5 }, { $set: { 'a.b': n }, $unset: { u: 1 } }, { multi: true }), clock),
    () => store.update(ns, set({ _id: n }, { replaced: n }, { upsert: true }), clock),
    () => store.delete(ns, { filter: { _id: n }, limit: 1 }, clock),
    () => store.delete(ns, { filter: { u: n % 5 }, limit: 0 }, clock),
    () => store.drop(ns, clock),
    () => store.rename(ns, other, true, clock),
    () => store.createIndexes(ns, [{ key: { u: 1 }, unique: n % 3 === 0, name: `u_${n % 2}` }], clock),
    () => store.dropIndexes(ns, '*', clock),
    () => store.collMod(ns, { validator: { n: { $ne: n } } }, clock),
    () => store.create('db.capped', { capped: true, size: 200 }, clock),
    () => store.insert('db.capped', { n, pad: 'x'.repeat(40) }, clock),
    () => store.dropDatabase('db', clock),
    () => transact(store, clock, ns, n),
  ];
  try {
    actions[kind % actions.length]!();
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
  }
}

function transact(store: DataStore, clock: Clock, ns: string, n: number): void {
  const view = store.beginTransaction();
  try {
    view.insert(ns, { _id: `t${n}` }, clock);
    view.update(ns, set({ _id: n }, { $set: { t: n } }), clock);
  } catch (error) {
    view.abort();
    throw error;
  }
  view.commit(clock);
}

/** A run of random writes. */
export const steps = fc.array(fc.tuple(fc.nat(14), fc.nat(7)), { maxLength: 40 });
