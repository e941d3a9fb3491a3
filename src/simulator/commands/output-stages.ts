/** $out and $merge: writing a pipeline's result. */
import { randomUUID } from 'node:crypto';
import type { Document } from 'bson';
import type { Privilege } from '../contracts.ts';
import { isDocument, typeName } from './arguments.ts';
import { type Call, noteWrite, privilege, writeContext } from './call.ts';
import { asServerError, fail } from './errors.ts';
import { checkCollectionName, splitNamespace } from './namespaces.ts';

/** A pipeline's last stage, when it writes. */
export interface OutputStage {
  readonly name: '$out' | '$merge';
  readonly body: unknown;
}

/** The output stage of a pipeline; 40601 when one is not the last. */
export function outputStage(stages: readonly Document[]): OutputStage | null {
  for (const [index, stage] of stages.entries()) {
    const name = Object.keys(stage)[0];
    if (name !== '$out' && name !== '$merge') continue;
    if (index !== stages.length - 1) throw fail(40601, `${name} can only be the final stage in the pipeline`);
    return { name, body: stage[name] };
  }
  return null;
}

/** Namespace of the output: a name, or a database and a name. */
function targetOf(output: OutputStage, db: string): string {
  const into: unknown =
    output.name === '$merge' && isDocument(output.body) ? output.body['into'] : output.body;
  if (typeof into === 'string') return checked(db, into);
  if (isDocument(into)) {
    const name: unknown = into['coll'];
    const inDb: unknown = into['db'] ?? db;
    if (typeof name === 'string' && typeof inDb === 'string') return checked(inDb, name);
  }
  if (output.name === '$merge') {
    throw fail(
      51178,
      `$merge 'into' field must be either a string or an object, but found ${typeName(into)}`,
    );
  }
  throw fail(16990, `$out only supports a string or object argument, but found ${typeName(into)}`);
}

function checked(db: string, collection: string): string {
  checkCollectionName(db, collection, true);
  return `${db}.${collection}`;
}

/** What writing there needs. */
export function mergePrivileges(stage: Document, db: string): Privilege[] {
  const name = Object.keys(stage)[0] as OutputStage['name'];
  const body: unknown = stage[name];
  const { db: target, collection } = splitNamespace(targetOf({ name, body }, db));
  return [privilege(target, collection, 'insert', name === '$out' ? 'remove' : 'update')];
}

/** Writes the documents as the stage says. */
export function writeOutput(call: Call, output: OutputStage, documents: readonly Document[]): void {
  const target = targetOf(output, call.db);
  if (call.data.info(target)?.type === 'view') {
    throw fail(166, `Namespace ${target} is a view, not a collection`);
  }
  if (output.name === '$out') replaceCollection(call, target, documents);
  else mergeInto(call, target, isDocument(output.body) ? output.body : {}, documents);
}

/** Builds the new content beside the old one and puts it in its place; options and indexes stay. */
function replaceCollection(call: Call, target: string, documents: readonly Document[]): void {
  const { data } = call;
  const { db } = splitNamespace(target);
  const present = data.info(target);
  if (present?.options['capped'])
    throw fail(17152, `namespace '${target}' is capped so it can't be used for $out`);
  const temporary = `${db}.tmp.agg_out.${randomUUID()}`;
  noteWrite(call, data.create(temporary, present?.options ?? {}, writeContext(call)));
  try {
    const indexes =
      present === undefined ? [] : data.indexes(target).filter((index) => index['name'] !== '_id_');
    if (indexes.length > 0) noteWrite(call, data.createIndexes(temporary, indexes, writeContext(call)));
    for (const document of documents) {
      noteWrite(call, data.insert(temporary, document, writeContext(call)));
    }
    noteWrite(call, data.rename(temporary, target, true, writeContext(call)));
  } catch (failure) {
    data.drop(temporary, writeContext(call));
    throw failure;
  }
}

type WhenMatched = 'replace' | 'keepExisting' | 'merge' | 'fail' | readonly Document[];

function mergeInto(call: Call, target: string, body: Document, documents: readonly Document[]): void {
  const on: readonly string[] = body['on'] === undefined ? ['_id'] : [body['on']].flat();
  const whenMatched: WhenMatched = body['whenMatched'] ?? 'merge';
  const whenNotMatched: string = body['whenNotMatched'] ?? 'insert';
  checkMergeIndex(call, target, on);
  for (const document of documents) {
    const filter = Object.fromEntries(on.map((field) => [field, document[field] ?? null]));
    const present = call.data.find(target, { filter, limit: 1 })[0];
    if (present !== undefined) mergeMatched(call, target, filter, document, whenMatched, body['let']);
    else if (whenNotMatched === 'insert') {
      noteWrite(call, call.data.insert(target, document, writeContext(call)));
    } else if (whenNotMatched === 'fail') {
      throw fail(
        13113,
        '$merge could not find a matching document in the target collection for at least one document in the source collection',
      );
    }
  }
}

function checkMergeIndex(call: Call, target: string, on: readonly string[]): void {
  if (on.length === 1 && on[0] === '_id') return;
  const wanted = [...on].sort().join();
  const found = call.data
    .indexes(target)
    .some((index) => index['unique'] && Object.keys(index['key']).sort().join() === wanted);
  if (!found) throw fail(51183, 'Cannot find index to verify that join fields will be unique');
}

function mergeMatched(
  call: Call,
  target: string,
  filter: Document,
  document: Document,
  how: WhenMatched,
  variables: Document | undefined,
): void {
  if (how === 'keepExisting') return;
  if (how === 'fail') {
    insertFresh(call, target, document);
    return;
  }
  const { _id, ...rest } = document;
  const update = how === 'replace' ? rest : how === 'merge' ? { $set: rest } : (how as readonly Document[]);
  noteWrite(
    call,
    call.data.update(
      target,
      {
        filter,
        update,
        multi: false,
        upsert: false,
        ...(Array.isArray(how) ? { let: { ...variables, new: document } } : {}),
      },
      writeContext(call),
    ),
  );
}

/** Inserts what must not exist yet; the error of one that does says which key it has. */
function insertFresh(call: Call, target: string, document: Document): void {
  try {
    noteWrite(call, call.data.insert(target, document, writeContext(call)));
  } catch (failure) {
    const { code, message, extra } = asServerError(failure);
    throw fail(code, `$merge failed due to a DuplicateKey error :: caused by :: ${message}`, extra);
  }
}
