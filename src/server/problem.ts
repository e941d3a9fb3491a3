import type { FastifyReply, FastifyRequest } from 'fastify';
import { asBelayError, BelayError } from '../base/error.ts';
import type { Log } from '../engine/ports.ts';

/** HTTP status of each code; codes not named here are 500 when they may pass and 400 when not. */
const STATUS: Readonly<Record<string, number>> = {
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
  Conflict: 409,
  Refused: 409,
  Gone: 410,
  PreconditionFailed: 412,
  TooLarge: 413,
  StoreUnavailable: 503,
  StoreFull: 507,
};

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
  const status =
    STATUS[error.code] ?? (error.code === 'Internal' ? 500 : error.retry === 'never' ? 400 : 503);
  if (error.code === 'Internal' || error.code === 'InvariantBroken') {
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
  return new BelayError('Malformed', (failure as Error).message, {
    retry: 'never',
    fix: 'send one JSON document',
  });
}

/** Sends a failure. */
export function sendProblem(reply: FastifyReply, request: FastifyRequest, failure: unknown, log: Log): void {
  const document = problemDocument(fromFastify(failure), log, request.id);
  void reply.status(document.status).type('application/problem+json').send(document);
}
