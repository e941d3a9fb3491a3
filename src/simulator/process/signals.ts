import type { ServerLog } from './log.ts';
import type { Shutdown } from './shutdown.ts';

/** What the process does on signals (1.3): SIGTERM and SIGINT end it cleanly, SIGUSR1 rotates the log, SIGHUP is nothing, SIGUSR2 logs the use of memory. */
export function onSignals(log: ServerLog, shutdown: Shutdown): void {
  for (const [signal, number, text] of [
    ['SIGTERM', 15, 'Terminated'],
    ['SIGINT', 2, 'Interrupt'],
  ] as const) {
    process.on(signal, () => {
      log.log('I', 'CONTROL', 23377, 'SignalHandler', 'Received signal', { signal: number, error: text });
      log.log('I', 'CONTROL', 23381, 'SignalHandler', 'will terminate after current cmd ends');
      void shutdown.run({ exitCode: 0, force: true, timeoutMillis: undefined });
    });
  }
  process.on('SIGUSR1', () => log.rotate());
  process.on('SIGHUP', () => undefined);
  process.on('SIGUSR2', () =>
    log.log('I', 'CONTROL', 31380, 'SignalHandler', 'Memory', { ...process.memoryUsage() }),
  );
}

const EXIT_ABRUPT = 14;

/** A failure nobody handles ends the process at once, as an abort ends the real one. */
export function onUncaught(log: ServerLog): void {
  process.on('uncaughtException', (failure) => {
    const error = failure instanceof Error ? (failure.stack ?? failure.message) : String(failure);
    log.log('F', 'CONTROL', 5_000_002, 'main', 'Unhandled failure in the simulator', { error });
    process.exit(EXIT_ABRUPT);
  });
}
