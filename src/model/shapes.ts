import { z } from 'zod';

type AnySchema = z.core.$ZodType;

/** What a field looks like, read from its schema: the source of explain, reference, did-you-mean and more. */
export interface FieldShape {
  readonly name: string;
  readonly type: string;
  readonly description: string;
  readonly required: boolean;
  readonly defaultValue: unknown;
  readonly options: readonly string[];
  readonly schema: AnySchema;
}

/** Takes optional, default, prefault, readonly and the like off a schema. */
export function unwrap(schema: AnySchema): AnySchema {
  let at = schema;
  while ('innerType' in at._zod.def) at = (at._zod.def as { innerType: AnySchema }).innerType;
  return at;
}

/** The fields of an object schema; of a union of objects: of all its options, first mention first. */
export function fieldsOf(schema: AnySchema): ReadonlyMap<string, AnySchema> {
  const bare = unwrap(schema);
  if (bare instanceof z.ZodObject) return new Map(Object.entries(bare.shape as Record<string, AnySchema>));
  const fields = new Map<string, AnySchema>();
  if (!(bare instanceof z.ZodUnion)) return fields;
  for (const option of bare.options) {
    for (const [name, field] of fieldsOf(option as AnySchema)) {
      const known = fields.get(name);
      fields.set(name, known === undefined ? field : alternatives(known, field));
    }
  }
  return fields;
}

// The field that tells the options apart has another literal in each: together they are its accepted values.
function alternatives(known: AnySchema, field: AnySchema): AnySchema {
  if (!(unwrap(field) instanceof z.ZodLiteral)) return known;
  const values = [...new Set([...optionsOf(known), ...optionsOf(field)])];
  return z.enum(values).describe(descriptionOf(known));
}

/** The schema found by following a path of field names and list indexes, or undefined. */
export function schemaAt(schema: AnySchema, path: readonly PropertyKey[]): AnySchema | undefined {
  let at: AnySchema | undefined = schema;
  for (const part of path) {
    if (at === undefined) return undefined;
    at = stepInto(at, part);
  }
  return at;
}

function stepInto(schema: AnySchema, part: PropertyKey): AnySchema | undefined {
  const bare = unwrap(schema);
  if (bare instanceof z.ZodArray) {
    const element = bare.element as AnySchema;
    return typeof part === 'number' ? element : stepInto(element, part);
  }
  if (bare instanceof z.ZodRecord) return bare.valueType as AnySchema;
  return fieldsOf(bare).get(String(part));
}

/** Names of the fields accepted at a path. */
export function namesAt(schema: AnySchema, path: readonly PropertyKey[]): readonly string[] {
  const at = schemaAt(schema, path);
  return at === undefined ? [] : [...fieldsOf(at).keys()];
}

/** Everything a reader wants to know about one field. */
export function shapeOf(name: string, schema: AnySchema): FieldShape {
  const options = optionsOf(schema);
  return {
    name,
    schema,
    options,
    type: typeName(schema),
    description: descriptionOf(schema),
    required: isRequired(schema),
    defaultValue: defaultOf(schema),
  };
}

/** Description of a schema or, failing that, of the one it wraps. */
export function descriptionOf(schema: AnySchema): string {
  let at = schema;
  for (;;) {
    const text = z.globalRegistry.get(at)?.description;
    if (text !== undefined) return text;
    if (!('innerType' in at._zod.def)) return '';
    at = (at._zod.def as { innerType: AnySchema }).innerType;
  }
}

const OPTIONAL = new Set(['optional', 'default', 'prefault']);

function isRequired(schema: AnySchema): boolean {
  return !OPTIONAL.has(schema._zod.def.type);
}

function defaultOf(schema: AnySchema): unknown {
  const def = schema._zod.def as { type: string; defaultValue?: unknown };
  return def.type === 'default' ? def.defaultValue : undefined;
}

function optionsOf(schema: AnySchema): readonly string[] {
  const bare = unwrap(schema);
  if (bare instanceof z.ZodEnum) return bare.options.map(String);
  if (bare instanceof z.ZodLiteral) return [...bare.values].map(String);
  if (bare instanceof z.ZodArray) return optionsOf(bare.element as AnySchema);
  return [];
}

/** Name of a type for people: `text`, `whole number`, `list of text`, `map of text`, `fields`. */
export function typeName(schema: AnySchema): string {
  const bare = unwrap(schema);
  if (bare instanceof z.ZodArray) return `list of ${typeName(bare.element as AnySchema)}`;
  if (bare instanceof z.ZodRecord) return `map of ${typeName(bare.valueType as AnySchema)}`;
  if (bare instanceof z.ZodObject || bare instanceof z.ZodUnion) return 'fields';
  if (bare instanceof z.ZodBoolean) return 'true or false';
  if (bare instanceof z.ZodNumber) return bare.format === 'safeint' ? 'whole number' : 'number';
  if (bare instanceof z.ZodUnknown) return 'anything';
  return 'text';
}
