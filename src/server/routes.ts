/**
 * The table of routes: what the API has, who may use it and how it is described. Registration, the check of roles and
 * query parameters, and /openapi.json all come from it, so that none of them can say something else.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { BelayError } from '../base/error.ts';
import { formatCount } from '../base/units.ts';
import { problemsFromIssues } from '../model/index.ts';
import { ROLES, type Role } from '../security/tokens.ts';
import type { ApiDeps, Identity } from './deps.ts';

export type Json = Readonly<Record<string, unknown>>;

/** A query parameter or header. Parameters a route does not name are refused: a misspelt `dryRun` must not become real. */
export interface Parameter {
  readonly name: string;
  readonly in: 'query' | 'header';
  readonly description: string;
  readonly schema: Json;
}

/** What a request may carry. With `check` a body of the wrong form is refused before the handler sees it. */
export interface Body {
  readonly schema: Json;
  readonly types: readonly string[];
  readonly required: boolean;
  readonly check?: z.ZodType;
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** In OpenAPI's form: `/api/v1/namespaces/{ns}/mongodb/{name}`. */
  readonly path: string;
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  /** The weakest role that may use it; `anyone` needs no token. A dry run needs `viewer` only. */
  readonly role: Role | 'anyone';
  readonly parameters?: readonly Parameter[];
  readonly body?: Body;
  /** Largest body in bytes, where it is not that of all. */
  readonly bodyLimit?: number;
  /** Successful answers; failures are problem+json everywhere. */
  readonly answers: Readonly<Record<number, { readonly description: string; readonly schema?: Json }>>;
  /** Gives the body of the answer, or the reply when it was sent already. */
  readonly handle: (call: Call) => unknown;
}

/** One request as handlers see it. */
export interface Call {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Null on routes for anyone. */
  readonly identity: Identity | null;
  readonly query: Readonly<Record<string, string>>;
  readonly body: unknown;
  /** Value of `{name}` in the path. */
  param(name: string): string;
  header(name: string): string | undefined;
}

const identities = new WeakMap<FastifyRequest, Identity>();

/** Who sent a request, as far as it is known yet. */
export const identityOf = (request: FastifyRequest): Identity | null => identities.get(request) ?? null;

/** Adds one route to the app. */
export function addRoute(app: FastifyInstance, deps: ApiDeps, route: Route): void {
  app.route({
    method: route.method,
    ...(route.bodyLimit === undefined ? {} : { bodyLimit: route.bodyLimit }),
    url: route.path.replace(/\{(\w+)\}/g, ':$1'),
    onRequest: async (request) => {
      await authorise(deps, request, route);
      checkQuery(request, route);
    },
    handler: async (request, reply) => {
      const params = request.params as Readonly<Record<string, string>>;
      return route.handle({
        request,
        reply,
        identity: identityOf(request),
        query: request.query as Readonly<Record<string, string>>,
        body: checkBody(request.body, route),
        param: (name) => params[name] ?? '',
        header: (name) => request.headers[name] as string | undefined,
      });
    },
  });
}

// ── who may do what ────────────────────────────────────────────────────────────────────────────────────────────────

/** Viewers read and try out, operators change, admins also see passwords and let hosts and people in. */
async function authorise(deps: ApiDeps, request: FastifyRequest, route: Route): Promise<void> {
  if (route.role === 'anyone') return;
  const token = /^Bearer (\S+)\s*$/i.exec(request.headers.authorization ?? '')?.[1];
  if (token === undefined) {
    throw new BelayError('Unauthorized', 'no token was sent', {
      retry: 'never',
      fix: 'give one with --token, BELAY_TOKEN, or the profile that belay up writes',
    });
  }
  const identity = await deps.authenticate(token);
  identities.set(request, identity);
  const needed = isDryRun(request, route) ? 'viewer' : route.role;
  if (ROLES.indexOf(identity.role) <= ROLES.indexOf(needed)) return;
  throw new BelayError(
    'Forbidden',
    `token ${identity.name} has role ${identity.role}, but ${needed} is needed: ${route.summary}`,
    {
      retry: 'never',
      fix: `use a token with role ${needed}; an admin makes one with: belay token create NAME --role ${needed}`,
    },
  );
}

function isDryRun(request: FastifyRequest, route: Route): boolean {
  const asked = (request.query as Readonly<Record<string, unknown>>)['dryRun'];
  return asked !== undefined && route.parameters?.some((p) => p.name === 'dryRun') === true;
}

// ── what may be sent ───────────────────────────────────────────────────────────────────────────────────────────────

function checkQuery(request: FastifyRequest, route: Route): void {
  const known = (route.parameters ?? []).filter((p) => p.in === 'query').map((p) => p.name);
  for (const [name, value] of Object.entries(request.query as Readonly<Record<string, unknown>>)) {
    if (!known.includes(name)) {
      throw new BelayError('Malformed', `there is no query parameter ${name} here`, {
        retry: 'never',
        fix: known.length === 0 ? 'leave it out' : `there are: ${known.join(', ')}`,
      });
    }
    if (typeof value !== 'string')
      throw new BelayError('Malformed', `query parameter ${name} is given twice`, { retry: 'never' });
  }
}

function checkBody(body: unknown, route: Route): unknown {
  if (route.body?.check === undefined) return body;
  const parsed = route.body.check.safeParse(body ?? {});
  if (parsed.success) return parsed.data;
  const problems = problemsFromIssues(parsed.error.issues, body, { namesAt: () => [] });
  throw new BelayError('Invalid', `the request has ${formatCount(problems.length, 'problem')}`, {
    retry: 'never',
    problems,
  });
}

// ── helpers for handlers ───────────────────────────────────────────────────────────────────────────────────────────

/** A yes-or-no parameter. `Malformed` for anything else. */
export function flag(call: Call, name: string): boolean {
  const value = call.query[name];
  if (value === undefined || value === 'false') return false;
  if (value === 'true') return true;
  throw new BelayError('Malformed', `${name} is true or false`, { retry: 'never' });
}

/** Most items of one page of a list. */
export const PAGE_LIMIT = 1000;
const PAGE_DEFAULT = 100;

/** `limit`, from 1 to 1000. */
export function limitOf(call: Call): number {
  const text = call.query['limit'];
  const limit = text === undefined ? PAGE_DEFAULT : Number(text);
  if (Number.isInteger(limit) && limit >= 1 && limit <= PAGE_LIMIT) return limit;
  throw new BelayError('Malformed', `limit must be a whole number from 1 to ${PAGE_LIMIT}`, {
    retry: 'never',
  });
}

/** `dryRun`, or null when it is real. */
export function dryRunOf(call: Call): 'validate' | 'plan' | null {
  const value = call.query['dryRun'];
  if (value === undefined || value === 'validate' || value === 'plan') return value ?? null;
  throw new BelayError('Malformed', 'dryRun is validate or plan', { retry: 'never' });
}
