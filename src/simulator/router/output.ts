/** $out and $merge of pipelines that ran on several shards: the router writes the result like a client would. */
import type { Document } from 'bson';
import { fail } from '../commands/errors.ts';
import type { OutputStage } from '../commands/output-stages.ts';
import { isDocument } from '../data/index.ts';
import { assertGood, type RouteCall } from './call.ts';

const BATCH = 1_000;

/** Writes documents as the stage says. 238 for what this router does not do. */
export async function writeOutput(
  call: RouteCall,
  { name, body }: OutputStage,
  documents: readonly Document[],
): Promise<void> {
  const { db, collection } = targetOf(name, body, call.db);
  const run = async (command: Document): Promise<Document> => {
    const reply = assertGood(await call.router.node.runInternal(db, command));
    const [error] = (reply['writeErrors'] ?? []) as Document[];
    if (error !== undefined) throw fail(Number(error['code']), String(error['errmsg']));
    return reply;
  };
  if (name === '$out') {
    await run({ delete: collection, deletes: [{ q: {}, limit: 0 }] });
    for (const part of parts(documents)) await run({ insert: collection, documents: part });
    return;
  }
  const statement = mergeStatement(isDocument(body) ? body : {});
  for (const part of parts(documents)) await run({ update: collection, updates: part.map(statement) });
}

function targetOf(
  name: string,
  body: unknown,
  db: string,
): { readonly db: string; readonly collection: string } {
  const into: unknown = name === '$merge' && isDocument(body) ? body['into'] : body;
  if (typeof into === 'string') return { db, collection: into };
  if (isDocument(into) && typeof into['coll'] === 'string') {
    return { db: typeof into['db'] === 'string' ? into['db'] : db, collection: into['coll'] };
  }
  throw fail(51178, `${name} needs the name of a collection`);
}

function mergeStatement(body: Document): (document: Document) => Document {
  const on: readonly string[] = body['on'] === undefined ? ['_id'] : [body['on']].flat();
  const matched: unknown = body['whenMatched'] ?? 'merge';
  const missing: unknown = body['whenNotMatched'] ?? 'insert';
  if (missing === 'fail' || matched === 'fail' || Array.isArray(matched))
    throw fail(238, 'the simulator’s router merges by replace, merge and keepExisting only');
  const upsert = missing === 'insert';
  return (document) => {
    const q = Object.fromEntries(on.map((field) => [field, document[field] ?? null]));
    if (matched === 'replace') return { q, u: document, upsert };
    const { _id, ...rest } = document;
    if (matched === 'keepExisting') return { q, u: { $setOnInsert: upsert ? document : rest }, upsert };
    return { q, u: { $set: on.includes('_id') ? rest : document }, upsert };
  };
}

function* parts(documents: readonly Document[]): Generator<readonly Document[]> {
  for (let at = 0; at < documents.length; at += BATCH) yield documents.slice(at, at + BATCH);
}
