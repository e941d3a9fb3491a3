/** `--fork`: the parent starts the server apart from itself and waits until it serves or fails. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, writeSync } from 'node:fs';

const CHILD_MARK = 'BELAY_SIM_FORKED';
const READY_FD = 3;
const READY = 'ready';

/** True in the process that is to serve. */
export const isForkedChild = (): boolean => process.env[CHILD_MARK] === '1';

/** Starts the child with the same arguments; gives the exit code of the parent. */
export async function forkAndWait(): Promise<number> {
  process.stdout.write('about to fork child process, waiting until server is ready for connections.\n');
  const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    detached: true,
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    env: { ...process.env, [CHILD_MARK]: '1' },
  });
  process.stdout.write(`forked process: ${child.pid}\n`);
  const ended = once(child, 'exit').then(([code]) => Number(code ?? 14));
  const ready = once(child.stdio[READY_FD] as NodeJS.ReadableStream, 'data').then(
    () => READY as typeof READY,
  );
  const outcome = await Promise.race([ended, ready]);
  if (outcome === READY) {
    process.stdout.write('child process started successfully, parent exiting\n');
    child.unref();
    return 0;
  }
  process.stderr.write(
    `ERROR: child process failed, exited with ${outcome}\n` +
      'To see additional information in this output, start without the "--fork" option.\n',
  );
  return outcome;
}

/** Tells the parent that the server serves. */
export function reportReady(): void {
  if (!isForkedChild()) return;
  delete process.env[CHILD_MARK];
  writeSync(READY_FD, READY);
  closeSync(READY_FD);
}
