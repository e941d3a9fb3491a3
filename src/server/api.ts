/** The REST API (interfaces, REST) as a fastify app: parsers, failures, hooks, and the table of routes. */
import { randomUUID } from 'node:crypto';
import type { RequestListener, Server } from 'node:http';
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { BelayError } from '../base/error.ts';
import { MIB } from '../base/units.ts';
import { findKind, KINDS, parseDocuments } from '../model/index.ts';
import { accessRoutes } from './accessRoutes.ts';
import type { ApiDeps } from './deps.ts';
import { maintenanceRoutes } from './maintenanceRoutes.ts';
import { objectRoutes } from './objectRoutes.ts';
import { openApiDocument } from './openapi.ts';
import { sendProblem } from './problem.ts';
import { addRoute, identityOf, type Route } from './routes.ts';

/** Largest request body: documents of people are a thousand times smaller. */
const BODY_LIMIT = MIB;

/** Makes the HTTP server behind the app: plain HTTP when absent. */
export type ServerFactory = (handler: RequestListener) => Server;

/** All routes. */
export function apiRoutes(deps: ApiDeps, caPem: () => string): readonly Route[] {
  const routes: Route[] = [...accessRoutes(deps, caPem), ...maintenanceRoutes(deps), ...objectRoutes(deps)];
  routes.unshift(...openRoutes(deps, () => openApiDocument(routes, deps.version)));
  return routes;
}

/** The app, not yet listening. `caPem` is handed to clients that connect. */
export function buildApi(
  deps: ApiDeps,
  caPem: () => string,
  serverFactory: ServerFactory | null = null,
): FastifyInstance {
  const app = fastify({
    logger: false,
    bodyLimit: BODY_LIMIT,
    genReqId: () => randomUUID(),
    forceCloseConnections: true,
    ...(serverFactory === null
      ? {}
      : { serverFactory: (handler: RequestListener) => serverFactory(handler) }),
  });
  addParsers(app);
  app.setErrorHandler((error, request, reply) => sendProblem(reply, request, error, deps.log));
  app.setNotFoundHandler((request, reply) => sendProblem(reply, request, nothingThere(request), deps.log));
  app.addHook('onRequest', async (request, reply) => {
    reply.headers({ 'x-request-id': request.id, 'cache-control': 'no-store' });
  });
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none';
    deps.counted?.(request.method, route, reply.statusCode);
    if (request.method !== 'GET' && request.method !== 'HEAD') audit(deps, request, reply.statusCode);
  });
  for (const route of apiRoutes(deps, caPem)) addRoute(app, deps, route);
  return app;
}

/** Who changed what. The path only: bodies and queries may hold anything. */
function audit(deps: ApiDeps, request: FastifyRequest, status: number): void {
  const { method, id } = request;
  const who = identityOf(request)?.name ?? null;
  deps.log.info('request', { id, who, method, path: request.url.split('?')[0], status });
}

function addParsers(app: FastifyInstance): void {
  app.removeContentTypeParser('text/plain');
  app.addContentTypeParser(
    'application/merge-patch+json',
    { parseAs: 'string' },
    app.getDefaultJsonParser('error', 'error'),
  );
  app.addContentTypeParser(
    ['application/yaml', 'application/x-yaml', 'text/yaml'],
    { parseAs: 'string' },
    async (_: unknown, text: string | Buffer) => oneDocument(String(text)),
  );
}

function oneDocument(text: string): unknown {
  const { documents, problems } = parseDocuments(text, 'body');
  if (problems.length > 0) {
    throw new BelayError('Malformed', 'the body is not readable as YAML', {
      retry: 'never',
      problems: problems.map(({ position, message }) => ({
        path: `${position.line}:${position.column}`,
        message,
      })),
    });
  }
  if (documents.length === 1) return documents[0]?.value;
  throw new BelayError('Malformed', `the body holds ${documents.length} documents`, {
    retry: 'never',
    fix: 'send one document a request; belay apply -f sends a whole file',
  });
}

function nothingThere(request: FastifyRequest): BelayError {
  const path = request.url.split('?')[0] ?? '';
  const plural = /^\/api\/v1\/(?:namespaces\/[^/]+\/)?([^/]+)/.exec(path)?.[1];
  const known = plural === undefined ? undefined : findKind(plural);
  const kinds = KINDS.map((k) => k.plural).join(', ');
  const fix =
    known === undefined
      ? `kinds: ${kinds}; see /openapi.json`
      : `kind ${known.kind}: /api/v1/namespaces/NAMESPACE/${known.plural}/NAME; see /openapi.json`;
  return new BelayError('NotFound', `there is nothing at ${request.method} ${path}`, { retry: 'never', fix });
}

function openRoutes(deps: ApiDeps, description: () => unknown): readonly Route[] {
  const base = { method: 'GET' as const, tag: 'process', role: 'anyone' as const };
  let document: unknown;
  return [
    {
      ...base,
      path: '/healthz',
      id: 'health',
      summary: 'The process lives',
      answers: { 200: { description: 'It does' } },
      handle: () => ({ status: 'ok' }),
    },
    {
      ...base,
      path: '/readyz',
      id: 'ready',
      summary: 'Store and engine work',
      answers: { 200: { description: 'They do' }, 503: { description: 'Not yet' } },
      handle: async ({ reply }) => {
        const ready = await deps.ready();
        return reply.status(ready ? 200 : 503).send({ status: ready ? 'ok' : 'not ready' });
      },
    },
    {
      ...base,
      path: '/metrics',
      id: 'metrics',
      summary: 'Prometheus text',
      answers: { 200: { description: 'Metrics' } },
      handle: async ({ reply }) => reply.type('text/plain; version=0.0.4').send(await deps.metrics()),
    },
    {
      ...base,
      path: '/openapi.json',
      id: 'openApi',
      summary: 'This description',
      answers: { 200: { description: 'OpenAPI 3.1' } },
      handle: () => {
        document ??= description();
        return document;
      },
    },
  ];
}
