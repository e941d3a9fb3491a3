/** The API's description (OpenAPI 3.1), made from the table of routes and from the schemas that check documents. */
import { openApiComponents } from '../model/index.ts';
import type { Json, Route } from './routes.ts';

export const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });

const FAILURE: Json = {
  description: 'Refused or failed: code, detail, fix and every problem with its field path',
  content: { 'application/problem+json': { schema: ref('Problem') } },
};

/** The whole document. */
export function openApiDocument(routes: readonly Route[], version: string): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const route of routes) {
    paths[route.path] ??= {};
    (paths[route.path] as Record<string, Json>)[route.method.toLowerCase()] = operation(route);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Belay',
      version,
      description:
        'Control plane for MongoDB. Roles: viewer reads, operator changes, admin also sees passwords.',
    },
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: openApiComponents().schemas,
    },
  };
}

function operation(route: Route): Json {
  const inPath = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    description: PATH_PARAMETERS[name] ?? name,
    schema: { type: 'string' },
  }));
  const parameters = [...inPath, ...(route.parameters ?? [])];
  const failures = route.role === 'anyone' ? {} : { default: FAILURE };
  return {
    operationId: route.id,
    tags: [route.tag],
    summary: route.summary,
    'x-belay-role': route.role,
    ...(route.role === 'anyone' ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: route.body.required,
            content: contents(route.body.types, route.body.schema),
          },
        }),
    responses: { ...answers(route), ...failures },
  };
}

const PATH_PARAMETERS: Readonly<Record<string, string>> = {
  ns: 'Namespace',
  name: 'Name of the object',
  id: 'Id, as lists give it',
};

function answers(route: Route): Json {
  return Object.fromEntries(
    Object.entries(route.answers).map(([status, { description, schema }]) => [
      status,
      { description, ...(schema === undefined ? {} : { content: contents(['application/json'], schema) }) },
    ]),
  );
}

const contents = (types: readonly string[], schema: Json): Json =>
  Object.fromEntries(types.map((type) => [type, { schema }]));
