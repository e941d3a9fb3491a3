/** Exit codes scripts rely on (interfaces: 0 done, 1 failed, 2 usage, 3 a wait ran out, 4 refused); 130: Ctrl-C, as shells have it. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  timedOut: 3,
  refused: 4,
  changes: 10,
  interrupted: 130,
} as const;

/** Ends a verb with a code after everything was said already. */
export class Exit extends Error {
  readonly code: number;
  constructor(code: number) {
    super(`exit ${code}`);
    this.code = code;
  }
}

/** Codes of refusals: validation, safety, permission. Anything else is a failure. */
const REFUSALS: ReadonlySet<string> = new Set([
  'Invalid',
  'Forbidden',
  'Unauthorized',
  'AlreadyExists',
  'BeingDeleted',
  'Conflict',
  'PreconditionFailed',
  'UnsupportedFeature',
  'Refused',
  'MaintenanceDisabled',
  'TokenExpired',
  'TokenUsed',
  'TokenUnknown',
  'TokenForOtherHost',
  'MasterKeyWrong',
]);

/** The exit code that fits an error's code. */
export function exitCodeFor(code: string): number {
  if (code === 'Usage') return EXIT.usage;
  if (code === 'WaitTimedOut') return EXIT.timedOut;
  return REFUSALS.has(code) ? EXIT.refused : EXIT.failed;
}
