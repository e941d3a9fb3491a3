import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { HOUR } from '../base/units.ts';
import { joinHost } from '../channel/index.ts';
import { silentLog } from '../engine/testing/bench.ts';
import { generateMasterKeyText, parseMasterKey } from '../security/seal.ts';
import { openStore } from '../store/open.ts';
import { systemClock } from './clock.ts';
import { type ControlPlane, openControlPlane } from './controlplane.ts';

const folders: string[] = [];
const opened: ControlPlane[] = [];
const masterKey = parseMasterKey(generateMasterKeyText().reveal());

afterEach(async () => {
  for (const plane of opened.splice(0)) await plane.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'belay-plane-'));
  folders.push(folder);
  return folder;
}

async function open(
  dataDir: string,
  storeUrl = `sqlite:${join(dataDir, 'belay.db')}`,
): Promise<ControlPlane> {
  const agentListen = { host: '127.0.0.1', port: 0 };
  const plane = await openControlPlane({
    storeUrl,
    dataDir,
    masterKey,
    log: silentLog,
    agentListen,
    version: '0.0.0',
  });
  opened.push(plane);
  return plane;
}

test('a host joins once with its token and gets a certificate of this installation', async () => {
  const plane = await open(scratch());
  const [url = ''] = plane.agentUrls;
  const { token } = await plane.tokens.createJoinToken({ host: 'db1', validFor: HOUR });
  const options = { url, token, caFingerprint: plane.caFingerprint, hostName: 'db1' };
  const joined = await joinHost(options);
  expect(joined.identity).toMatchObject({ host: 'db1', caPem: plane.ca.caPem });
  expect(joined.urls).toEqual(plane.agentUrls);
  expect(await plane.store.get({ kind: 'Host', namespace: 'default', name: 'db1' })).not.toBeNull();
  await expect(joinHost(options)).rejects.toMatchObject({ code: 'TokenUsed', retry: 'never' });
  await expect(joinHost({ ...options, caFingerprint: `sha256:${'0'.repeat(64)}` })).rejects.toMatchObject({
    code: 'CaMismatch',
  });
});

test('the same folder keeps installation, CA and secrets; two control planes in one folder are refused', async () => {
  const folder = scratch();
  const first = await open(folder);
  const { installation, ca } = first;
  await expect(open(folder)).rejects.toMatchObject({ code: 'DataFolderInUse' });
  await first.close();
  const second = await open(folder);
  expect(second.installation).toBe(installation);
  expect(second.ca.caPem).toBe(ca.caPem);
});

test("L1 after a crash the next start takes its predecessor's leases at once, with a newer epoch", async () => {
  const folder = scratch();
  const first = await open(folder);
  const uid = 'any';
  const before = first.engine.leases.fence(uid);
  expect(before).not.toBeNull();
  // What a killed process leaves: its claim, and leases nobody gave back.
  const claim = JSON.parse(readFileSync(join(folder, 'control-plane.json'), 'utf8')) as { holder: string };
  const names = Array.from({ length: 16 }, (_, i) => `clusters/${i}`);
  await first.close();
  const store = await openStore(`sqlite:${join(folder, 'belay.db')}`, { clock: systemClock });
  await store.acquireLeases(names, claim.holder, HOUR, Date.now());
  await store.close();
  writeFileSync(
    join(folder, 'control-plane.json'),
    JSON.stringify({ ...claim, pid: 2 ** 22 + 1, startedAt: '1' }),
  );
  const second = await open(folder);
  const after = second.engine.leases.fence(uid);
  expect(after?.epoch).toBeGreaterThan(before?.epoch ?? 0);
});

test('a wrong master key is refused and nothing stays open', async () => {
  const folder = scratch();
  await (await open(folder)).close();
  opened.pop();
  const other = parseMasterKey(generateMasterKeyText().reveal());
  const storeUrl = `sqlite:${join(folder, 'belay.db')}`;
  const agentListen = { host: '127.0.0.1', port: 0 };
  const common = { storeUrl, dataDir: folder, log: silentLog, agentListen, version: '0' };
  await expect(openControlPlane({ ...common, masterKey: other })).rejects.toMatchObject({
    code: 'MasterKeyWrong',
  });
  await open(folder);
});
