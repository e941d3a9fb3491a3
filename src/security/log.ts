import { type DestinationStream, destination as fileDestination, pino } from 'pino';
import { BelayError } from '../base/error.ts';
import { Secret } from '../base/secret.ts';
import type { Log } from '../engine/ports.ts';

export interface LogOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  /** A file, or a stream for tests; without it the standard error. */
  readonly destination?: string | DestinationStream;
  /** Fields on every line, for example which process this is. */
  readonly base?: Readonly<Record<string, unknown>>;
}

/**
 * Names of fields that never reach a log whatever their value (S8). `Secret` values print as `***` anyway; this
 * catches a plain value under a telling name, at the top and one or two levels down.
 */
const HIDDEN_FIELDS = [
  'password',
  'token',
  'secret',
  'key',
  'keyFile',
  'masterKey',
  'authorization',
  'pem',
  'combinedPem',
];

/** JSON lines, one per message, with `time` in ISO 8601. */
export function makeLog(options: LogOptions): Log {
  const { level, destination, base = {} } = options;
  const stream =
    typeof destination === 'object'
      ? destination
      : fileDestination({ dest: destination ?? 2, sync: true, mkdir: true, mode: 0o600 });
  const paths = HIDDEN_FIELDS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]);
  const logger = pino(
    {
      level,
      base,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths, censor: String(new Secret('')) },
    },
    stream,
  );
  return {
    debug: (message, fields) => logger.debug(plain(fields), message),
    info: (message, fields) => logger.info(plain(fields), message),
    warn: (message, fields) => logger.warn(plain(fields), message),
    error: (message, fields) => logger.error(plain(fields), message),
  };
}

/** Errors have no JSON form of their own; their code and message are what a reader needs. */
function plain(fields: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const entries = Object.entries(fields).map(([name, value]) => [
    name,
    value instanceof Error ? errorFields(value) : value,
  ]);
  return Object.fromEntries(entries) as Record<string, unknown>;
}

function errorFields(failure: Error): Record<string, unknown> {
  if (!(failure instanceof BelayError))
    return { name: failure.name, message: failure.message, stack: failure.stack };
  const { code, message, retry, fix } = failure;
  return { code, message, retry, fix };
}
