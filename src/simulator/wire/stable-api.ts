/** The stable API: what a client may declare, and which commands version 1 has (2.6). */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { asFlag, wrongType } from './bson.ts';

/** Commands of API version 1. */
const VERSION_1: ReadonlySet<string> = new Set([
  'abortTransaction',
  'aggregate',
  'authenticate',
  'bulkWrite',
  'collMod',
  'commitTransaction',
  'count',
  'create',
  'createIndexes',
  'createSearchIndexes',
  'delete',
  'drop',
  'dropDatabase',
  'dropIndexes',
  'dropSearchIndex',
  'endSessions',
  'explain',
  'find',
  'findAndModify',
  'getMore',
  'hello',
  'insert',
  'killCursors',
  'listCollections',
  'listDatabases',
  'listIndexes',
  'listSearchIndexes',
  'ping',
  'refreshSessions',
  'saslContinue',
  'saslStart',
  'update',
  'updateSearchIndex',
]);

/** True for a command that API version 1 has. */
export const inApiVersion1 = (name: string): boolean => VERSION_1.has(name);

/** Holds a command's declaration against the stable API: 322, 323 or 498870 when it doesn't fit. */
export function assertApiVersion(command: Document, name: string, required: boolean): void {
  const version: unknown = command['apiVersion'];
  if (version === undefined) {
    if (command['apiStrict'] !== undefined || command['apiDeprecationErrors'] !== undefined) {
      throw new ServerError(
        322,
        'APIVersionError',
        'Provided apiStrict and/or apiDeprecationErrors without passing apiVersion',
      );
    }
    if (!required) return;
    throw new ServerError(
      498870,
      'Location498870',
      "The apiVersion parameter is required, please configure your MongoClient's API version",
    );
  }
  if (typeof version !== 'string') throw wrongType('apiVersion', version, 'string');
  if (version !== '1') throw new ServerError(322, 'APIVersionError', 'API version must be "1"');
  if (!asFlag(command['apiStrict']) || inApiVersion1(name)) return;
  throw new ServerError(
    323,
    'APIStrictError',
    `Provided apiStrict:true, but the command ${name} is not in API Version 1. Information on supported commands and ` +
      'migrations in API Version 1 can be found at https://dochub.mongodb.org/core/manual-versioned-api',
  );
}
