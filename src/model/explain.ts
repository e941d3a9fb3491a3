import { splitPath } from './paths.ts';
import { findKind, KINDS, type KindInfo } from './registry.ts';
import { type FieldShape, fieldsOf, schemaAt, shapeOf, unwrap } from './shapes.ts';
import { nearest } from './suggest.ts';

/** What `belay explain` says, or why it cannot. */
export type Explanation =
  | { readonly kind: 'found'; readonly text: string; readonly about: Explained }
  | { readonly kind: 'unknown'; readonly message: string };

/** A field as programs get it. */
export interface ExplainedField {
  readonly name: string;
  readonly type: string;
  readonly required: boolean;
  readonly default?: unknown;
  readonly description: string;
}

/** A kind or a field as programs get it, with what is below it. */
export interface Explained extends ExplainedField {
  readonly kind: string;
  /** Path below the kind; empty for the kind itself. */
  readonly path: string;
  readonly accepted: readonly string[];
  readonly fields: readonly ExplainedField[];
}

/**
 * Explains a kind or one of its fields, from the descriptions in the schema: `explain('mongodb', 'spec.members')`.
 * The path may begin with the kind (`mdb.spec.members`) when only one argument is given.
 */
export function explain(target: string, path?: string): Explanation {
  const [head = '', ...tail] = target.split('.');
  const info = findKind(head);
  if (info === undefined) return { kind: 'unknown', message: unknownKind(head) };
  const parts = splitPath(path ?? tail.join('.'));
  let shape: FieldShape = { ...shapeOf(info.kind, info.schema), description: info.description };
  for (const [index, part] of parts.entries()) {
    if (typeof part === 'number') continue;
    const schema = schemaAt(shape.schema, [part]);
    if (schema === undefined) return { kind: 'unknown', message: unknownField(info, shape, parts, index) };
    shape = shapeOf(part, schema);
  }
  return { kind: 'found', text: render(info, parts, shape), about: explained(info, parts, shape) };
}

function unknownKind(name: string): string {
  const names = KINDS.flatMap((info) => [info.plural, info.singular, ...info.shortNames]);
  const near = nearest(name, names);
  const kinds = KINDS.map((info) => info.kind).join(', ');
  return near === undefined
    ? `${name} is not a kind; there are ${kinds}`
    : `${name} is not a kind, did you mean ${near}?`;
}

function unknownField(
  info: KindInfo,
  shape: FieldShape,
  parts: readonly (string | number)[],
  index: number,
): string {
  const known = [...elementFields(shape).keys()];
  const name = String(parts[index]);
  const above = [info.kind, ...parts.slice(0, index)].join('.');
  const near = nearest(name, known);
  if (near !== undefined) return `${above} has no field ${name}, did you mean ${near}?`;
  if (known.length === 0) return `${above} has no fields`;
  return `${above} has no field ${name}; it has ${known.join(', ')}`;
}

/** Fields below a shape; of a list: those of its items. */
export function elementFields(shape: FieldShape): ReturnType<typeof fieldsOf> {
  const bare = unwrap(shape.schema);
  const element = bare._zod.def.type === 'array' ? schemaAt(bare, [0]) : undefined;
  return fieldsOf(element ?? bare);
}

function explained(info: KindInfo, parts: readonly (string | number)[], shape: FieldShape): Explained {
  const fields = [...elementFields(shape)].map(([name, schema]) => explainedField(shapeOf(name, schema)));
  const own = explainedField({ ...shape, name: parts.length === 0 ? info.plural : shape.name });
  return { ...own, kind: info.kind, path: parts.join('.'), accepted: shape.options, fields };
}

const explainedField = ({ name, type, required, defaultValue, description }: FieldShape): ExplainedField => ({
  name,
  type,
  required,
  ...(defaultValue === undefined ? {} : { default: defaultValue }),
  description,
});

function render(info: KindInfo, parts: readonly (string | number)[], shape: FieldShape): string {
  const lines = [`KIND    ${info.kind} (${[info.plural, ...info.shortNames].join(', ')})`];
  if (parts.length > 0) lines.push(`FIELD   ${parts.join('.')}  <${shape.type}>${facts(shape)}`);
  lines.push('', shape.description);
  if (shape.options.length > 0) lines.push('', `Accepted: ${shape.options.join(', ')}`);
  const fields = [...elementFields(shape)].map(([name, schema]) => shapeOf(name, schema));
  if (fields.length > 0) lines.push('', 'FIELDS', ...fields.flatMap(fieldLines));
  return `${lines.join('\n')}\n`;
}

function fieldLines(field: FieldShape): string[] {
  return [`  ${field.name}  <${field.type}>${facts(field)}`, `    ${field.description}`];
}

function facts(field: FieldShape): string {
  if (field.required) return '  required';
  return field.defaultValue === undefined || isEmpty(field.defaultValue)
    ? ''
    : `  default ${JSON.stringify(field.defaultValue)}`;
}

/** Whether a default is an empty list, map or text, which is not worth a word. */
export function isEmpty(value: unknown): boolean {
  if (value === '') return true;
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
