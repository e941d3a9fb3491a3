/** What a crash between two writes leaves behind: the member starts all the same. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { secret } from '../base/secret.ts';
import { revealSnapshot } from '../channel/index.ts';
import { servicePaths } from './layout.ts';
import { type Bench, makeMember, openBench, type TestMember, until } from './testing/bench.ts';

let bench: Bench;
let member: TestMember;
beforeAll(async () => {
  bench = await openBench();
  member = await makeMember(bench, 'orders-0');
  await member.publish({});
  await until(() => expect(member.facts()?.database?.kind).toBe('reachable'));
});
afterAll(() => bench?.close());

const paths = () => servicePaths(join(bench.dataDir, 'services', member.serviceId));
const certificate = async () => {
  const leaf = await bench.ca.issue('orders-0', ['localhost', 'orders-0', '127.0.0.1']);
  return secret(leaf.keyPem + leaf.certificatePem);
};

const pid = (): number => {
  const process = member.facts()?.process;
  return process?.kind === 'running' ? process.pid : 0;
};

/** The agent dies, this is what is on its disk, and the machine starts again. */
async function afterCrash(left: () => void): Promise<void> {
  const before = pid();
  await bench.agent.close();
  left();
  process.kill(before, 'SIGKILL');
  await bench.startAgent();
  await until(() => {
    expect(bench.agents.host('host-a')?.connected).toBe(true);
    expect(member.facts()).toMatchObject({ process: { kind: 'running' }, database: { kind: 'reachable' } });
    expect(pid()).not.toBe(before);
  });
}

test('TLS-04 A2.6 a snapshot that was kept before its files were written: the member starts with the new certificate', async () => {
  const certificatePem = await certificate();
  const before = member.facts()?.certificate?.fingerprint;
  const next = { ...member.snapshot, configVersion: 2, certificatePem };
  await afterCrash(() => writeFileSync(paths().snapshot, JSON.stringify(revealSnapshot(next))));
  expect(readFileSync(paths().certificate, 'utf8')).toBe(certificatePem.reveal());
  await until(() => expect(member.facts()?.configVersion).toBe(2));
  expect(member.facts()?.certificate?.fingerprint).not.toBe(before);
});

test('TLS-04 files of a newer certificate without its snapshot, or half of one: the member starts with the one it was given', async () => {
  const given = readFileSync(paths().certificate, 'utf8');
  const newer = (await certificate()).reveal();
  await afterCrash(() => writeFileSync(paths().certificate, newer));
  expect(readFileSync(paths().certificate, 'utf8')).toBe(given);
  await afterCrash(() => writeFileSync(paths().certificate, newer.slice(0, 700)));
  expect(readFileSync(paths().certificate, 'utf8')).toBe(given);
});

test('STK-04 A9.2 a certificate that does not match its key is refused in the server’s words, and the next one heals the member', async () => {
  const [one, other] = await Promise.all(
    [0, 1].map(() => bench.ca.issue('orders-0', ['localhost', 'orders-0', '127.0.0.1'])),
  );
  const mixed = secret(`${one?.keyPem}${other?.certificatePem}`);
  await member.publish({ configVersion: 5, certificatePem: mixed });
  await until(() => {
    const { configError, process } = member.facts() ?? {};
    expect(process?.kind).toBe('exited');
    expect(`${configError} ${process?.kind === 'exited' ? process.message : ''}`).toMatch(/key|certificate/i);
  });
  await member.publish({ configVersion: 6, certificatePem: await certificate() });
  await until(() =>
    expect(member.facts()).toMatchObject({
      configVersion: 6,
      configError: null,
      database: { kind: 'reachable' },
    }),
  );
});
