/** Wishes that cannot come true, and the way back from them, over processes and sockets. */
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { replicaSet } from './support/documents.ts';
import { LONG, Stack } from './support/stack.ts';

const OLD = '7.0.43-23';
const NEW = '8.0.32-14';
const BROKEN = '8.0.29-13';
const spec: Record<string, unknown> = { version: OLD, members: 1, maintenance: { interruption: 'Allowed' } };
let stack: Stack;

beforeAll(async () => {
  stack = await Stack.start({ agents: [], env: { BELAY_SIM_SHUTDOWN_MILLIS: '200' } });
  const bin = stack.builds([OLD, NEW, BROKEN]);
  const program = path.join(bin, BROKEN, 'bin', 'mongod');
  rmSync(program);
  writeFileSync(
    program,
    '#!/bin/sh\ncase " $* " in *" --version "*) echo "db version v8.0.29-13"; exit 0;; esac\necho "cannot run on this machine" >&2\nexit 14\n',
  );
  chmodSync(program, 0o755);
  await stack.startAgent('local', { binDir: bin });
  await stack.apply(replicaSet('one', spec));
  await stack.untilReady('one');
}, LONG);
afterAll(() => stack?.stop(), LONG);

/** `belay COMMAND -f -` with the document as it is with these fields. */
const with_ = (command: readonly string[], fields: Readonly<Record<string, unknown>>) =>
  stack.belay([...command, '-f', '-'], JSON.stringify(replicaSet('one', { ...spec, ...fields })));

const untilBlocked = (reason: string): Promise<void> =>
  stack.until(
    async () =>
      (await stack.status('one')).conditions?.some(
        (c) => c.type === 'Blocked' && c.status === 'True' && c.reason === reason,
      ) ?? false,
    `${reason} is shown`,
  );

/** What the agent keeps with each volume. */
function noted(): readonly unknown[] {
  const volumes = path.join(stack.agentDir('local'), 'volumes');
  return readdirSync(volumes).map(
    (id) => JSON.parse(readFileSync(path.join(volumes, id, 'owner.json'), 'utf8')).newestRun,
  );
}

async function insert(n: number): Promise<void> {
  const client = await stack.connect('one', 'databaseAdmin');
  await client.db('shop').collection<{ _id: number }>('orders').insertOne({ _id: n });
  await client.close();
}
async function documents(): Promise<number> {
  const client = await stack.connect('one', 'databaseAdmin');
  const count = await client.db('shop').collection('orders').countDocuments();
  await client.close();
  return count;
}

test(
  'A6.6 STO-01 a size that no disk holds: plan and apply say so, nothing grows, and it is taken back',
  async () => {
    const planned = await with_(['plan'], { storage: { size: '900Ti' } });
    expect(planned.out).toMatch(
      /refused {2}DiskFull: the volume of one-0 cannot be 900 TiB: the whole disk is \S+ \S+ on host local/,
    );
    const applied = await with_(['apply'], { storage: { size: '900Ti' } });
    expect(applied).toMatchObject({
      code: 0,
      err: expect.stringContaining('900 TiB is more than the whole disk'),
    });
    await untilBlocked('DiskFull');
    expect((await stack.status('one')).members?.map((m) => m.volumeBytes)).toEqual([10 * 1024 ** 3]);
    expect((await with_(['apply'], { storage: { size: '9Gi' } })).err).toContain(
      'cannot shrink from the 10Gi that the volume of one-0 has to 9Gi',
    );
    expect((await with_(['apply', '--wait'], { storage: { size: '10Gi' } })).code).toBe(0);
  },
  LONG,
);

test(
  'A8.1 A8.4 S7 the next major of a set of one fails to start: it is put back, with its data; once it ran it is not',
  async () => {
    await insert(1);
    await stack.apply(replicaSet('one', { ...spec, version: BROKEN }));
    await untilBlocked('ProcessFailing');
    const planned = await with_(['plan'], {});
    expect(planned.out).toContain(`${BROKEN} → ${OLD}`);
    const back = await with_(['apply', '--wait'], {});
    expect({ code: back.code, err: back.err }).toMatchObject({
      code: 0,
      err: expect.stringContaining(`takes ${BROKEN} back`),
    });
    expect(await documents()).toBe(1);
    expect(noted()).toEqual(['7.0']);

    const up = await with_(['apply', '--wait'], { version: NEW });
    expect(up.code).toBe(0);
    await insert(2);
    expect(await stack.status('one')).toMatchObject({
      featureCompatibilityVersion: '7.0',
      members: [{ version: NEW, newestRun: '8.0' }],
    });
    expect(noted()).toEqual(['8.0']);
    // Down or up: it has run.
    for (const pid of stack.mongods()) process.kill(pid, 'SIGSTOP');
    expect((await with_(['apply'], {})).err).toContain('downgrades across major versions are not supported');
    for (const pid of stack.mongods()) process.kill(pid, 'SIGCONT');
    await stack.untilReady('one');
    expect(await documents()).toBe(2);
  },
  LONG,
);
