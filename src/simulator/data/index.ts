/** The data part of the simulator, as the other parts use it. */
export {
  BSON_OPTIONS,
  canonical,
  canonicalDocument,
  decode,
  encode,
  isDocument,
  isNumeric,
  isTruthy,
  plain,
  render,
  sizeOf,
  toInteger,
  toNumber,
  typeName,
} from './bson.ts';
export { bracketOf, collatorOf, compareValues, equalValues, identicalValues, valueKey } from './compare.ts';
export { describeUpdate, isDiffEntry, type UpdateDescription } from './diff.ts';
export { compileFilter, isOperatorDocument, type Matcher } from './match.ts';
export { compareOpTimes, entryFromDocument, entryToDocument } from './oplog.ts';
export { compileProjection } from './project.ts';
export { compileSort } from './sort.ts';
export { type DataStoreOptions, openDataStore, openMemoryStore } from './store.ts';
export { StorageFailure } from './wal-file.ts';
