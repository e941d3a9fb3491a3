/** A useful subset of `$jsonSchema`, for validators and filters. */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, isNumeric, toNumber, typeOf } from './bson.ts';
import { compareValues, valueKey } from './compare.ts';
import { toRegExp, typeCodes } from './match-operators.ts';

/** One keyword a value breaks, as `errInfo.details` lists them. */
type SchemaBreach = Document;

type Check = (value: unknown) => boolean;

const JSON_TYPES: Readonly<Record<string, string>> = {
  object: 'object',
  array: 'array',
  number: 'number',
  boolean: 'bool',
  string: 'string',
  null: 'null',
};

const bad = (message: string): ServerError => new ServerError(9, 'FailedToParse', message);

/** Compiles a schema into a test on documents. Errors: 9 FailedToParse for unknown keywords, 14 for wrong types. */
export function compileJsonSchema(schema: unknown): (document: Document) => boolean {
  if (!isDocument(schema)) throw new ServerError(14, 'TypeMismatch', '$jsonSchema must be an object');
  return compileSchema(schema);
}

function compileSchema(schema: Document): Check {
  const checks = Object.entries(schema).map(([keyword, value]) => compileKeyword(keyword, value, schema));
  return (value) => checks.every((check) => check(value));
}

const always: Check = () => true;
/** A keyword that only says something about one kind of value. */
const whenType =
  (applies: Check, check: Check): Check =>
  (value) =>
    !applies(value) || check(value);
const isString: Check = (value) => typeof value === 'string';
const isArray: Check = (value) => Array.isArray(value);

function compileKeyword(keyword: string, value: unknown, schema: Document): Check {
  switch (keyword) {
    case 'bsonType': {
      const codes = new Set(typeCodes(value));
      return (actual) => codes.has(typeOf(actual));
    }
    case 'type':
      return jsonType(value);
    case 'enum': {
      const keys = new Set((value as unknown[]).map((entry) => valueKey(entry)));
      return (actual) => keys.has(valueKey(actual));
    }
    case 'allOf':
    case 'anyOf':
    case 'oneOf':
      return compileCombination(keyword, value);
    case 'not': {
      const inner = compileSchema(value as Document);
      return (actual) => !inner(actual);
    }
    case 'title':
    case 'description':
      return always;
    default:
      return compileObjectKeyword(keyword, value, schema);
  }
}

function jsonType(value: unknown): Check {
  const names = (Array.isArray(value) ? value : [value]).map((name) => {
    const alias = JSON_TYPES[String(name)];
    if (alias === undefined) throw new ServerError(2, 'BadValue', `Unknown type name alias: ${String(name)}`);
    return alias;
  });
  const codes = new Set(typeCodes(names));
  return (actual) => codes.has(typeOf(actual));
}

function compileCombination(keyword: string, value: unknown): Check {
  const checks = (value as Document[]).map(compileSchema);
  return (actual) => {
    const passed = checks.filter((check) => check(actual)).length;
    if (keyword === 'oneOf') return passed === 1;
    return keyword === 'allOf' ? passed === checks.length : passed > 0;
  };
}

function compileObjectKeyword(keyword: string, value: unknown, schema: Document): Check {
  switch (keyword) {
    case 'required': {
      const names = value as string[];
      return whenType(isDocument, (actual) => names.every((name) => Object.hasOwn(actual as Document, name)));
    }
    case 'properties': {
      const checks = Object.entries(value as Document).map(
        ([name, inner]) => [name, compileSchema(inner as Document)] as const,
      );
      return whenType(isDocument, (actual) =>
        checks.every(
          ([name, check]) => !Object.hasOwn(actual as Document, name) || check((actual as Document)[name]),
        ),
      );
    }
    case 'patternProperties':
      return compilePatterns(value as Document);
    case 'additionalProperties':
      return compileAdditional(value, schema);
    case 'minProperties':
      return whenType(isDocument, (actual) => Object.keys(actual as Document).length >= toNumber(value)!);
    case 'maxProperties':
      return whenType(isDocument, (actual) => Object.keys(actual as Document).length <= toNumber(value)!);
    case 'dependencies':
      return compileDependencies(value as Document);
    default:
      return compileScalarKeyword(keyword, value, schema);
  }
}

function compilePatterns(patterns: Document): Check {
  const rules = Object.entries(patterns).map(
    ([pattern, inner]) => [toRegExp(pattern, undefined), compileSchema(inner as Document)] as const,
  );
  return whenType(isDocument, (actual) =>
    Object.entries(actual as Document).every(([name, field]) =>
      rules.every(([pattern, check]) => !pattern.test(name) || check(field)),
    ),
  );
}

/** A field that is there asks for others, by name or by a schema. */
function compileDependencies(dependencies: Document): Check {
  const rules = Object.entries(dependencies).map(([name, needs]): readonly [string, Check] => {
    if (!Array.isArray(needs)) return [name, compileSchema(needs as Document)];
    return [name, (actual) => needs.every((other) => Object.hasOwn(actual as Document, String(other)))];
  });
  return whenType(isDocument, (actual) =>
    rules.every(([name, check]) => !Object.hasOwn(actual as Document, name) || check(actual)),
  );
}

function compileAdditional(value: unknown, schema: Document): Check {
  const known = new Set(Object.keys((schema['properties'] as Document | undefined) ?? {}));
  const patterns = Object.entries((schema['patternProperties'] as Document | undefined) ?? {}).map(
    ([pattern, inner]) => [toRegExp(pattern, undefined), compileSchema(inner as Document)] as const,
  );
  const other: Check = isDocument(value) ? compileSchema(value) : () => value !== false;
  return whenType(isDocument, (actual) =>
    Object.entries(actual as Document).every(([name, field]) => {
      const fitting = patterns.filter(([pattern]) => pattern.test(name));
      if (fitting.length > 0) return fitting.every(([, check]) => check(field));
      return known.has(name) || other(field);
    }),
  );
}

function compileScalarKeyword(keyword: string, value: unknown, schema: Document): Check {
  const codePoints = (text: unknown) => [...(text as string)].length;
  switch (keyword) {
    case 'minimum': {
      const least = schema['exclusiveMinimum'] === true ? 1 : 0;
      return whenType(isNumeric, (actual) => Math.sign(compareValues(actual, value)) >= least);
    }
    case 'maximum': {
      const most = schema['exclusiveMaximum'] === true ? -1 : 0;
      return whenType(isNumeric, (actual) => Math.sign(compareValues(actual, value)) <= most);
    }
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
      return always;
    case 'multipleOf':
      return whenType(isNumeric, (actual) => toNumber(actual)! % toNumber(value)! === 0);
    case 'minLength':
      return whenType(isString, (actual) => codePoints(actual) >= toNumber(value)!);
    case 'maxLength':
      return whenType(isString, (actual) => codePoints(actual) <= toNumber(value)!);
    case 'pattern': {
      const regex = toRegExp(value, undefined);
      return whenType(isString, (actual) => regex.test(actual as string));
    }
    default:
      return compileArrayKeyword(keyword, value, schema);
  }
}

function compileArrayKeyword(keyword: string, value: unknown, schema: Document): Check {
  switch (keyword) {
    case 'minItems':
      return whenType(isArray, (actual) => (actual as unknown[]).length >= toNumber(value)!);
    case 'maxItems':
      return whenType(isArray, (actual) => (actual as unknown[]).length <= toNumber(value)!);
    case 'uniqueItems':
      return whenType(
        isArray,
        (actual) =>
          value !== true ||
          new Set((actual as unknown[]).map((entry) => valueKey(entry))).size ===
            (actual as unknown[]).length,
      );
    case 'items':
      return compileItems(value);
    case 'additionalItems': {
      const fixed = Array.isArray(schema['items']) ? schema['items'].length : Number.POSITIVE_INFINITY;
      const other: Check = isDocument(value) ? compileSchema(value) : () => value !== false;
      return whenType(isArray, (actual) => (actual as unknown[]).slice(fixed).every(other));
    }
    default:
      throw bad(`Unknown $jsonSchema keyword: ${keyword}`);
  }
}

function compileItems(value: unknown): Check {
  if (Array.isArray(value)) {
    const checks = value.map((entry) => compileSchema(entry as Document));
    return whenType(isArray, (actual) =>
      checks.every(
        (check, index) => index >= (actual as unknown[]).length || check((actual as unknown[])[index]),
      ),
    );
  }
  const check = compileSchema(value as Document);
  return whenType(isArray, (actual) => (actual as unknown[]).every(check));
}

/** What the schema finds wrong with a document, for `errInfo.details` of a failed validation (top level only). */
export function schemaBreaches(schema: Document, document: Document): readonly SchemaBreach[] {
  const breaches: SchemaBreach[] = [];
  for (const [keyword, value] of Object.entries(schema)) {
    if (compileKeyword(keyword, value, schema)(document)) continue;
    if (keyword === 'required') {
      const missing = (value as string[]).filter((name) => !Object.hasOwn(document, name));
      breaches.push({
        operatorName: 'required',
        specifiedAs: { required: value },
        missingProperties: missing,
      });
    } else if (keyword === 'properties') {
      breaches.push({
        operatorName: 'properties',
        propertiesNotSatisfied: brokenProperties(value as Document, document),
      });
    } else {
      breaches.push({ operatorName: keyword, specifiedAs: { [keyword]: value } });
    }
  }
  return breaches;
}

function brokenProperties(properties: Document, document: Document): Document[] {
  return Object.entries(properties).flatMap(([name, inner]) => {
    if (!Object.hasOwn(document, name) || compileSchema(inner as Document)(document[name])) return [];
    const details = Object.entries(inner as Document)
      .filter(([keyword, value]) => !compileKeyword(keyword, value, inner as Document)(document[name]))
      .map(([keyword, value]) => ({
        operatorName: keyword,
        specifiedAs: { [keyword]: value },
        reason: keyword === 'bsonType' || keyword === 'type' ? 'type did not match' : 'comparison failed',
        consideredValue: document[name],
      }));
    return [{ propertyName: name, details }];
  });
}
