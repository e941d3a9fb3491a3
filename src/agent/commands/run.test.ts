import { type Document, MongoNetworkError } from 'mongodb';
import { expect, test } from 'vitest';
import { secret } from '../../base/secret.ts';
import { manualClock } from '../../channel/testing/clock.ts';
import type { CommandOutcome, MemberCommand, MemberSnapshot } from '../../clusters/snapshot.ts';
import type { ClientPool } from '../mongo.ts';
import { runCommand } from './run.ts';

const as = { user: 'userAdmin', db: 'admin', password: secret('p') };
const write: MemberCommand = {
  kind: 'reconcileUsers',
  as,
  roles: [],
  users: [{ user: 'app', db: 'admin', password: secret('p'), roles: [] }],
  drop: [],
};
const look: MemberCommand = { kind: 'stepDown', as, forSeconds: 60, catchUpSeconds: 10 };

/** Runs a command at a member that answers like this. */
function at(answer: (command: Document) => Promise<Document>) {
  const clock = manualClock();
  const abort = new AbortController();
  let cleared = 0;
  const clients = { get: () => ({ db: () => ({ command: answer }) }), clear: () => cleared++ };
  const snapshot = { port: 1, tlsMode: 'disabled' } as MemberSnapshot;
  const context = { snapshot, clients: clients as unknown as ClientPool, ownsPort: () => true };
  const run = (command: MemberCommand): Promise<CommandOutcome> =>
    runCommand(context, command, { timeoutMillis: 15_000, signal: abort.signal, clock });
  return { run, clock, abort, cleared: () => cleared };
}
const lost = () => Promise.reject(new MongoNetworkError('connection closed'));
const never = () => new Promise<Document>(() => {});
const onlyHello = (rest: () => Promise<Document>) => (command: Document) =>
  'hello' in command ? Promise.resolve({ isWritablePrimary: true }) : rest();

test('A5.4 a write that got no answer may have happened; a look that got none is only to be repeated', async () => {
  expect(await at(onlyHello(lost)).run(write)).toMatchObject({ kind: 'unknown' });
  expect(await at(lost).run(look)).toMatchObject({ kind: 'refused', class: 'transient' });
});

test('A7.1 a command that does not end in time has an unknown outcome, and its connections are given up', async () => {
  const member = at(onlyHello(never));
  const outcome = member.run(write);
  member.clock.advance(14_999);
  expect(member.cleared()).toBe(0);
  member.clock.advance(1);
  expect(await outcome).toMatchObject({ kind: 'unknown', message: expect.stringContaining('15000 ms') });
  expect(member.cleared()).toBe(1);
});

test('S9 a command that a newer epoch cut off sends nothing more and has an unknown outcome', async () => {
  const sent: string[] = [];
  const member = at(async (command) => {
    sent.push(Object.keys(command)[0] as string);
    member.abort.abort();
    return { isWritablePrimary: true, users: [] };
  });
  expect(await member.run(write)).toMatchObject({ kind: 'unknown' });
  expect(sent).toEqual(['hello']);
});
