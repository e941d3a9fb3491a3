import type { FastifyReply, FastifyRequest } from 'fastify';
import { asBelayError, BelayError } from '../base/error.ts';
import type { Log } from '../engine/ports.ts';

/** HTTP status of each code; codes not named here are 503 when they may pass and 400 when not. */
const STATUS: Readonly<Record<string, number>> = {
  Internal: 500,
  InvariantBroken: 500,
  Invalid: 422,
  UnsupportedFeature: 422,
  Malformed: 400,
  Unauthorized: 401,
  TokenExpired: 401,
  TokenUsed: 401,
  TokenUnknown: 401,
  Forbidden: 403,
  NotFound: 404,
  AlreadyExists: 409,
  BeingDeleted: 409,
  Conflict: 409,
  NotReady: 409,
  Refused: 409,
  Gone: 410,
  PreconditionFailed: 412,
  TooLarge: 413,
  UnsupportedMediaType: 415,
  StoreUnavailable: 503,
  StoreFull: 507,
};

/** What a client should wait before it asks again, when waiting helps. */
const RETRY_AFTER_SECONDS = 5;

/** An error as problem+json (RFC 9457): code, detail, fix and every problem with its field path. */
export interface ProblemDocument {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly fix?: string;
  readonly errors?: readonly { readonly path: string; readonly message: string }[];
}

/** The document for a failure. An unexpected one says only that, with an id to find in the log: its text could hold anything (S8). */
export function problemDocument(failure: unknown, log: Log, id: string): ProblemDocument {
  const error = asBelayError(failure);
  const status = STATUS[error.code] ?? (error.retry === 'never' ? 400 : 503);
  if (status === 500) {
    const original = error.cause instanceof Error ? error.cause : error;
    log.error('request failed', { id, error: original.message, stack: original.stack });
    return {
      type: 'about:blank',
      title: 'Internal',
      status: 500,
      code: 'Internal',
      detail: `unexpected failure; see the log for ${id}`,
    };
  }
  return {
    type: 'about:blank',
    title: error.code,
    status,
    code: error.code,
    detail: error.message,
    ...(error.fix === undefined ? {} : { fix: error.fix }),
    ...(error.problems.length === 0 ? {} : { errors: error.problems }),
  };
}

/** Fastify's own failures (bad JSON, too large a body) in our words. */
export function fromFastify(failure: unknown): unknown {
  const code = (failure as { code?: string }).code;
  const status = (failure as { statusCode?: number }).statusCode;
  if (failure instanceof BelayError || status === undefined || status >= 500) return failure;
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE')
    return new BelayError('TooLarge', 'the request body is larger than 1 MiB', { retry: 'never' });
  if (status === 415)
    return new BelayError('UnsupportedMediaType', 'a body of this content type is not understood here', {
      retry: 'never',
      fix: 'send application/json or application/yaml; a patch as application/merge-patch+json',
    });
  // The parser's own words may repeat what was sent, so they stay here (S8).
  return new BelayError('Malformed', 'the request is not well-formed: its body is not one JSON document', {
    retry: 'never',
    fix: 'send one JSON document, or YAML as application/yaml',
  });
}

/** Sends a failure. */
export function sendProblem(reply: FastifyReply, request: FastifyRequest, failure: unknown, log: Log): void {
  const document = problemDocument(fromFastify(failure), log, request.id);
  if (document.status === 401) void reply.header('www-authenticate', 'Bearer realm="belay"');
  if (document.status === 503) void reply.header('retry-after', String(RETRY_AFTER_SECONDS));
  void reply.status(document.status).type('application/problem+json').send(document);
}
