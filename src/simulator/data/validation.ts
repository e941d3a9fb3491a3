/** Collection validators and the checks every document passes before it is stored. */
import { type Document, type ObjectId, Timestamp } from 'bson';
import { ServerError, type WriteContext } from '../contracts.ts';
import { isDocument, render, sizeOf, typeName, typeOf } from './bson.ts';
import type { Collection } from './collection.ts';
import { schemaBreaches } from './json-schema.ts';
import { compileFilter, isOperatorDocument, type Matcher } from './match.ts';

/** The server's limit for one document. */
export const MAX_DOCUMENT_BYTES = 16 * 1024 * 1024;

const compiled = new WeakMap<Document, Matcher>();

function validatorOf(collection: Collection): { validator: Document; matches: Matcher } | undefined {
  const validator: unknown = collection.options['validator'];
  if (!isDocument(validator) || Object.keys(validator).length === 0) return undefined;
  if (collection.options['validationLevel'] === 'off' || collection.options['validationAction'] === 'warn') {
    return undefined;
  }
  const known = compiled.get(validator);
  if (known) return { validator, matches: known };
  const matches = compileFilter(validator);
  compiled.set(validator, matches);
  return { validator, matches };
}

/** Refuses a document the collection's validator doesn't take: 121 DocumentValidationFailure with the details. */
export function validate(
  collection: Collection,
  document: Document,
  context: WriteContext,
  before?: Document,
): void {
  if (context.bypassDocumentValidation) return;
  const rule = validatorOf(collection);
  if (!rule || rule.matches(document)) return;
  if (collection.options['validationLevel'] === 'moderate' && before && !rule.matches(before)) return;
  throw new ServerError(121, 'DocumentValidationFailure', 'Document failed validation', {
    errInfo: { failingDocumentId: document['_id'], details: detailsOf(rule.validator, document) },
  });
}

function detailsOf(validator: Document, document: Document): Document {
  const schema: unknown = validator['$jsonSchema'];
  if (isDocument(schema)) {
    const { title, description } = schema;
    return {
      operatorName: '$jsonSchema',
      ...(title !== undefined && { title }),
      ...(description !== undefined && { description }),
      schemaRulesNotSatisfied: schemaBreaches(schema, document),
    };
  }
  const broken = Object.entries(validator).find(
    ([name, value]) => !compileFilter({ [name]: value })(document),
  );
  const [name, condition] = broken ?? Object.entries(validator)[0]!;
  if (name.startsWith('$')) return { operatorName: name, specifiedAs: { [name]: condition } };
  const operator = isOperatorDocument(condition) ? Object.keys(condition)[0]! : '$eq';
  const present = Object.hasOwn(document, name);
  return {
    operatorName: operator,
    specifiedAs: { [name]: condition },
    reason: present ? 'comparison failed' : 'field was missing',
    ...(present && { consideredValue: document[name] }),
  };
}

/** The document ready to insert: `_id` first (made if absent), empty timestamps filled in, checked. */
export function prepareInsert(document: Document, context: WriteContext, newId: () => ObjectId): Document {
  const size = sizeOf(document);
  if (size > MAX_DOCUMENT_BYTES) {
    throw new ServerError(
      10334,
      'BSONObjectTooLarge',
      `object to insert too large. size in bytes: ${size}, max size: ${MAX_DOCUMENT_BYTES}`,
    );
  }
  const prepared = fillTimestamps(withIdFirst(document, newId), context);
  checkId(prepared['_id']);
  return prepared;
}

/** The document with `_id` as first field. */
export function withIdFirst(document: Document, newId: () => ObjectId): Document {
  if (Object.keys(document)[0] === '_id') return document;
  if (!Object.hasOwn(document, '_id')) return { _id: newId(), ...document };
  const { _id, ...rest } = document;
  return { _id, ...rest };
}

function fillTimestamps(document: Document, context: WriteContext): Document {
  let result = document;
  let increment = 1;
  for (const [name, value] of Object.entries(document)) {
    if (name === '_id' || typeOf(value) !== 17 || !(value as Timestamp).isZero()) continue;
    const now = new Timestamp({ t: Math.floor(context.wall.getTime() / 1000), i: increment });
    increment += 1;
    result = { ...result, [name]: now };
  }
  return result;
}

/** Refuses values that can't be an `_id`: arrays, regular expressions, undefined, documents with `$` fields. */
export function checkId(id: unknown): void {
  const type = typeOf(id);
  if (type === 4 || type === 11 || type === 6) {
    throw new ServerError(53, 'InvalidIdField', `The '_id' value cannot be of type ${typeName(id)}`);
  }
  if (!isDocument(id)) return;
  const dollar = Object.keys(id).find((name) => name.startsWith('$'));
  if (dollar !== undefined) {
    throw new ServerError(
      52,
      'DollarPrefixedFieldName',
      `_id fields may not contain '$'-prefixed fields: ${dollar} is not valid for storage.`,
    );
  }
}

/** Refuses a document an update made too large. */
export function checkSize(document: Document): void {
  const size = sizeOf(document);
  if (size <= MAX_DOCUMENT_BYTES) return;
  throw new ServerError(
    17419,
    'Location17419',
    `Resulting document after update is larger than ${MAX_DOCUMENT_BYTES}. Document has ${size} bytes, _id ${render(document['_id'])}`,
  );
}
