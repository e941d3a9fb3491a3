import { z } from 'zod';
import { findKind, flatMongodbSchema, KINDS } from './registry.ts';

/** A JSON Schema as a plain object. */
export type JsonSchema = Readonly<Record<string, unknown>>;

const SAFE = 9_007_199_254_740_991;

/** JSON Schema (draft 2020-12) of a kind, for editors: what a person may write, with descriptions and defaults. */
export function jsonSchema(kind: string): JsonSchema | undefined {
  const info = findKind(kind);
  return info === undefined ? undefined : { title: info.kind, ...toJson(info.schema) };
}

/** JSON Schema of a MongoDB with the fields of all types side by side, for places without alternatives (CRDs). */
export function flatMongodbJsonSchema(): JsonSchema {
  return toJson(flatMongodbSchema);
}

/** JSON Schema of any document of this API, so that one schema serves a whole folder in an editor. */
export function documentJsonSchema(): JsonSchema {
  const definitions = Object.fromEntries(KINDS.map((info) => [info.kind, bare(toJson(info.schema))]));
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Belay',
    oneOf: KINDS.filter((info) => !info.readOnly).map((info) => ({ $ref: `#/$defs/${info.kind}` })),
    $defs: definitions,
  };
}

/** Components of the OpenAPI 3.1 document: every kind, its list, and the form of problems. */
export function openApiComponents(): { readonly schemas: Readonly<Record<string, JsonSchema>> } {
  const schemas: Record<string, JsonSchema> = {};
  for (const info of KINDS) {
    schemas[info.kind] = { ...bare(toJson(info.schema)), description: info.description };
    schemas[`${info.kind}List`] = listSchema(info.kind);
  }
  schemas['Problem'] = PROBLEM;
  return { schemas };
}

function toJson(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ jsonSchema: json }) => {
      // Bounds of the language's whole numbers say nothing to a reader.
      if (json.maximum === SAFE) delete json.maximum;
      if (json.minimum === -SAFE) delete json.minimum;
    },
  }) as JsonSchema;
}

function bare(schema: JsonSchema): JsonSchema {
  const { $schema: _, ...rest } = schema;
  return rest;
}

function listSchema(kind: string): JsonSchema {
  return {
    type: 'object',
    description: `Several ${kind} objects.`,
    required: ['apiVersion', 'kind', 'metadata', 'items'],
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string', const: `${kind}List` },
      metadata: {
        type: 'object',
        properties: {
          resourceVersion: { type: 'string', description: 'Watch from here to miss nothing.' },
          continue: { type: 'string', description: 'Ask for the next page with it; absent on the last.' },
        },
      },
      items: { type: 'array', items: { $ref: `#/components/schemas/${kind}` } },
    },
  };
}

const PROBLEM: JsonSchema = {
  type: 'object',
  description: 'An error (application/problem+json).',
  required: ['title', 'status', 'code', 'detail'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    code: { type: 'string', description: 'Stable name of the error.' },
    detail: { type: 'string', description: 'What happened, in one sentence.' },
    fix: { type: 'string', description: 'What can be done about it.' },
    errors: {
      type: 'array',
      description: 'Every problem of the document.',
      items: {
        type: 'object',
        required: ['path', 'message'],
        properties: { path: { type: 'string' }, message: { type: 'string' } },
      },
    },
  },
};
