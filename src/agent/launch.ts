/** Starting and ending one process so that it outlives this one. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import type { Bytes } from '../base/units.ts';

export interface LaunchSpec {
  readonly executable: string;
  readonly args: readonly string[];
  /** Where standard output and error go. */
  readonly output: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly limits: { readonly memoryBytes: Bytes | null; readonly cpus: number | null };
  /** Unit name under systemd. */
  readonly unit: string;
}

/** Names of this process's environment that a database process gets; anything else could be a secret of ours (S8). */
const PASSED_ON =
  /^(PATH|HOME|LANG|LC_\w+|TZ|TMPDIR|XDG_CACHE_HOME|XDG_RUNTIME_DIR|NODE_COMPILE_CACHE|BELAY_SIM_\w+)$/;

/** What a database process sees: no telemetry (A1.4) and nothing it does not need. */
export function processEnvironment(
  extra: Readonly<Record<string, string>>,
  own: NodeJS.ProcessEnv = process.env,
): Record<string, string> {
  const passed = Object.entries(own).filter(
    (entry): entry is [string, string] => PASSED_ON.test(entry[0]) && entry[1] !== undefined,
  );
  return { ...Object.fromEntries(passed), ...extra, PERCONA_TELEMETRY_DISABLE: '1' };
}

/** Whose service manager takes the members: the machine's, this user's, or none (then there are no limits). */
export type Manager = 'system' | 'user' | null;

/** Systemd counts only where it runs this machine and this user may ask it. */
export function serviceManager(
  env: NodeJS.ProcessEnv = process.env,
  uid: number | undefined = process.getuid?.(),
  exists: (path: string) => boolean = existsSync,
): Manager {
  if (!exists('/run/systemd/system')) return null;
  if (uid === 0) return 'system';
  const runtime = env['XDG_RUNTIME_DIR'];
  return runtime !== undefined && exists(`${runtime}/systemd/private`) ? 'user' : null;
}

/**
 * Starts the process in a session of its own with output to a file: neither the end of the agent nor a signal to its
 * group reaches it. Under systemd it becomes a scope of its own, outside of the agent's control group and with its limits;
 * `systemd-run --scope` replaces itself by the program, so the number of the process stays.
 */
export function launch(spec: LaunchSpec, manager: Manager = serviceManager()): ChildProcess {
  const [program, ...args] = manager === null ? [spec.executable, ...spec.args] : scoped(spec, manager);
  const output = openSync(spec.output, 'w', 0o600);
  try {
    const child = spawn(program as string, args, {
      detached: true,
      stdio: ['ignore', output, output],
      env: processEnvironment(spec.environment),
      cwd: '/',
    });
    child.unref();
    return child;
  } finally {
    closeSync(output);
  }
}

/** The command under systemd: limits as properties of a transient scope. */
export function scoped(spec: LaunchSpec, manager: 'system' | 'user'): readonly string[] {
  const { memoryBytes, cpus } = spec.limits;
  const properties = [
    ...(memoryBytes === null ? [] : [`MemoryMax=${memoryBytes}`]),
    ...(cpus === null ? [] : [`CPUQuota=${Math.round(cpus * 100)}%`]),
  ];
  return [
    'systemd-run',
    ...(manager === 'user' ? ['--user'] : []),
    '--scope',
    '--quiet',
    '--collect',
    `--unit=${spec.unit}`,
    ...properties.flatMap((property) => ['-p', property]),
    '--',
    spec.executable,
    ...spec.args,
  ];
}

/** Signals the whole group of a process that leads one; a process that is gone is no error. */
export function signal(pid: number, name: NodeJS.Signals): void {
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, name);
      return;
    } catch {
      // Not a group leader: the process itself is next. Gone: that is what was wanted.
    }
  }
}
