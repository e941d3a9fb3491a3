/** Ports for servers of tests. */
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/** Below what the system gives to outgoing connections: one of those would take it between this look and the server's start. */
const [FIRST, BEYOND] = [30_000, 32_768] as const;

/** One that nobody listens on now, on any address. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, BEYOND);
    if (await isFree(port)) return port;
  }
}

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, () => probe.close(() => resolve(true)));
  });
