import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { secret } from '../base/secret.ts';
import { HOUR } from '../base/units.ts';
import type { Store } from '../engine/ports.ts';
import { openMemoryStore } from '../store/memory.ts';
import { ManualClock } from '../store/testing/clock.ts';
import { atomicWriteFile } from './files.ts';
import { makeLog } from './log.ts';
import { createKeyFile, loadMasterKey } from './master-key.ts';
import { generateMasterKeyText, keyId, masterKeyFrom, parseMasterKey, seal, unseal } from './seal.ts';
import { hasMasterKey, openSecrets, rotateMasterKey } from './secrets.ts';
import { openTokens } from './tokens.ts';

const key = masterKeyFrom(new Uint8Array(32).fill(1));
const otherKey = masterKeyFrom(new Uint8Array(32).fill(2));

async function failureOf(work: () => unknown): Promise<BelayError> {
  try {
    await work();
  } catch (failure) {
    expect(failure).toBeInstanceOf(BelayError);
    return failure as BelayError;
  }
  throw new Error('it did not fail');
}
const codeOf = async (work: () => unknown): Promise<string> => (await failureOf(work)).code;

let folder: string;
let clock: ManualClock;
let store: Store;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'belay-security-'));
  clock = new ManualClock();
  store = openMemoryStore({ clock });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('sealing', () => {
  test('a sealed value opens under its name and key, and shows nothing of the value', () => {
    const sealed = seal(key, 'a/b', 'canary-value ✓');
    expect(unseal(key, 'a/b', sealed).reveal()).toBe('canary-value ✓');
    expect(Buffer.from(sealed).includes('canary')).toBe(false);
    expect(Buffer.from(seal(key, 'a/b', 'canary-value ✓')).equals(Buffer.from(sealed))).toBe(false);
  });

  test('another key is named as such; another name and any changed byte are refused', async () => {
    const sealed = seal(key, 'a', 'value');
    const wrong = await failureOf(() => unseal(otherKey, 'a', sealed));
    expect(wrong.code).toBe('MasterKeyWrong');
    expect(wrong.message).toContain(keyId(key));
    expect(await codeOf(() => unseal(key, 'b', sealed))).toBe('SealBroken');
    expect(await codeOf(() => unseal(key, 'a', sealed.subarray(0, 20)))).toBe('SealBroken');
    for (let i = 0; i < sealed.length; i++) {
      const changed = Uint8Array.from(sealed);
      changed[i] = (changed[i] as number) ^ 1;
      expect(['SealBroken', 'MasterKeyWrong']).toContain(await codeOf(() => unseal(key, 'a', changed)));
    }
  });

  test('a value can be moved to another row neither as a whole nor in parts', async () => {
    const a = Buffer.from(seal(key, 'a', 'one'));
    const b = Buffer.from(seal(key, 'b', 'two'));
    const mixed = Buffer.concat([b.subarray(0, 72), a.subarray(72)]);
    expect(await codeOf(() => unseal(key, 'b', mixed))).toBe('SealBroken');
  });

  test('master keys are read as hex or base64; a bad one is refused without showing it', async () => {
    const bytes = Buffer.alloc(32, 7);
    expect(parseMasterKey(` ${bytes.toString('hex')}\n`).reveal()).toEqual(bytes);
    expect(parseMasterKey(bytes.toString('base64')).reveal()).toEqual(bytes);
    expect(parseMasterKey(bytes.toString('base64url')).reveal()).toEqual(bytes);
    const failure = await failureOf(() => parseMasterKey('correct-horse-battery'));
    expect(failure.code).toBe('MasterKeyInvalid');
    expect(failure.message).not.toContain('horse');
    expect(failure.fix).toContain('openssl rand');
  });
});

describe('master key', () => {
  const file = (): string => join(folder, 'data', 'master.key');

  test('the file is made when asked, 0600, and read again', async () => {
    const environment = {};
    const made = await loadMasterKey({ file: file(), create: true, environment });
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    const again = await loadMasterKey({ file: file(), create: true, environment });
    expect(keyId(again)).toBe(keyId(made));
    expect(readdirSync(join(folder, 'data'))).toEqual(['master.key']);
  });

  test('of several starts at once all get one key', async () => {
    const sources = { file: file(), create: true, environment: {} };
    await Promise.all([createKeyFile(file()), createKeyFile(file())]);
    const keys = await Promise.all([loadMasterKey(sources), loadMasterKey(sources)]);
    expect(new Set(keys.map(keyId)).size).toBe(1);
  });

  test('S8 the variable wins over the file and is taken out of the environment', async () => {
    const environment: Record<string, string | undefined> = {
      BELAY_MASTER_KEY: key.reveal().toString('hex'),
    };
    expect(keyId(await loadMasterKey({ file: file(), environment }))).toBe(keyId(key));
    expect(Object.keys(environment)).toEqual([]);
  });

  test('a systemd credential wins over both', async () => {
    writeFileSync(join(folder, 'belay-master-key'), otherKey.reveal().toString('hex'), { mode: 0o400 });
    const environment: Record<string, string | undefined> = {
      CREDENTIALS_DIRECTORY: folder,
      BELAY_MASTER_KEY: key.reveal().toString('hex'),
    };
    expect(keyId(await loadMasterKey({ environment }))).toBe(keyId(otherKey));
    expect(environment['BELAY_MASTER_KEY']).toBeUndefined();
  });

  test('a missing, readable or broken file is refused with a way out', async () => {
    const environment = {};
    expect(await codeOf(() => loadMasterKey({ environment }))).toBe('MasterKeyMissing');
    expect(await codeOf(() => loadMasterKey({ file: file(), environment }))).toBe('MasterKeyMissing');
    mkdirSync(join(folder, 'data'));
    writeFileSync(file(), generateMasterKeyText().reveal());
    chmodSync(file(), 0o640);
    const unsafe = await failureOf(() => loadMasterKey({ file: file(), environment }));
    expect(unsafe.code).toBe('MasterKeyUnsafe');
    expect(unsafe.fix).toContain('chmod 600');
    chmodSync(file(), 0o600);
    writeFileSync(file(), 'nonsense');
    expect(await codeOf(() => loadMasterKey({ file: file(), environment }))).toBe('MasterKeyInvalid');
  });
});

describe('secrets', () => {
  test('what is put is read back, listed by prefix and deleted', async () => {
    const secrets = await openSecrets(store, key);
    await secrets.put('clusters/u1/users/backup', secret('one'));
    await secrets.put('clusters/u1/users/backup', secret('two'));
    await secrets.put('clusters/u2/keyFile', secret('three'));
    expect((await secrets.get('clusters/u1/users/backup'))?.reveal()).toBe('two');
    expect(await secrets.list('clusters/')).toEqual(['clusters/u1/users/backup', 'clusters/u2/keyFile']);
    await secrets.delete('clusters/u1/');
    expect(await secrets.get('clusters/u1/users/backup')).toBeNull();
    expect(await secrets.list('')).toEqual(['clusters/u2/keyFile']);
    expect(await codeOf(() => secrets.delete('install'))).toBe('PrefixTooShort');
  });

  test('two callers that ensure a value get the same one', async () => {
    const [one, two] = [await openSecrets(store, key), await openSecrets(store, key)];
    let made = 0;
    const make = async (): Promise<string> => `value-${++made}`;
    const values = await Promise.all([one.ensure('a', make), two.ensure('a', make), one.ensure('a', make)]);
    expect(new Set(values.map((value) => value.reveal())).size).toBe(1);
    expect((await one.ensure('a', make)).reveal()).toBe(values[0]?.reveal());
  });

  test('a wrong master key is found at open, before anything is written', async () => {
    await openSecrets(store, key);
    const writes = store.writes;
    const failure = await failureOf(() => openSecrets(store, otherKey));
    expect(failure.code).toBe('MasterKeyWrong');
    expect(failure.retry).toBe('never');
    expect(failure.fix).toContain('BELAY_MASTER_KEY');
    expect(store.writes).toBe(writes);
  });

  test('a store knows whether it has a master key already', async () => {
    expect(await hasMasterKey(store)).toBe(false);
    await openSecrets(store, key);
    expect(await hasMasterKey(store)).toBe(true);
  });

  test('of two keys that meet on a new store one counts', async () => {
    const opened = await Promise.allSettled([openSecrets(store, key), openSecrets(store, otherKey)]);
    expect(opened.map((result) => result.status).toSorted()).toEqual(['fulfilled', 'rejected']);
  });

  test('S8 no plain value is in the rows', async () => {
    const secrets = await openSecrets(store, key);
    await secrets.put('clusters/u1/users/backup', secret('canary-4711'));
    const rows = await store.listSealed('');
    expect(rows.length).toBe(2);
    for (const row of rows) expect(Buffer.from(row.sealed).toString('latin1')).not.toContain('canary');
  });

  test('rotation seals everything anew; the old key is refused, also by those who hold it still', async () => {
    const before = await openSecrets(store, key);
    await before.put('a', secret('one'));
    await before.put('b', secret('two'));
    expect(await rotateMasterKey(store, key, otherKey)).toBe(3);
    const after = await openSecrets(store, otherKey);
    expect((await after.get('a'))?.reveal()).toBe('one');
    expect(await codeOf(() => openSecrets(store, key))).toBe('MasterKeyWrong');
    expect(await codeOf(() => before.get('b'))).toBe('MasterKeyWrong');
    expect(await codeOf(() => before.put('c', secret('three')))).toBe('MasterKeyWrong');
    expect(await rotateMasterKey(store, key, otherKey)).toBe(0);
  });

  test('a rotation that fails in between changes nothing, and one beside other writers succeeds', async () => {
    const secrets = await openSecrets(store, key);
    await secrets.put('a', secret('one'));
    const dying = {
      ...rowsOf(store),
      replaceSealed: () => Promise.reject(new BelayError('StoreFull', 'no space')),
    };
    expect(await codeOf(() => rotateMasterKey(dying, key, otherKey))).toBe('StoreFull');
    expect((await (await openSecrets(store, key)).get('a'))?.reveal()).toBe('one');
    let interrupted = false;
    const busy = {
      ...rowsOf(store),
      listSealed: async (prefix: string) => {
        const rows = await store.listSealed(prefix);
        if (!interrupted) await secrets.put('a', secret('changed meanwhile'));
        interrupted = true;
        return rows;
      },
    };
    await rotateMasterKey(busy, key, otherKey);
    expect((await (await openSecrets(store, otherKey)).get('a'))?.reveal()).toBe('changed meanwhile');
  });

  test('rotation with a wrong old key changes nothing', async () => {
    await openSecrets(store, key);
    const third = masterKeyFrom(new Uint8Array(32).fill(3));
    expect(await codeOf(() => rotateMasterKey(store, third, otherKey))).toBe('MasterKeyWrong');
    await openSecrets(store, key);
  });
});

const rowsOf = (of: Store) => ({
  getSealed: of.getSealed.bind(of),
  listSealed: of.listSealed.bind(of),
  putSealed: of.putSealed.bind(of),
  replaceSealed: of.replaceSealed.bind(of),
  deleteSealed: of.deleteSealed.bind(of),
  getSetting: of.getSetting.bind(of),
  initSetting: of.initSetting.bind(of),
});

describe('tokens', () => {
  test('an API token tells who it is, until it is revoked or expires', async () => {
    const tokens = openTokens(store, clock);
    const made = await tokens.createApiToken({ name: 'ci', role: 'operator', validFor: HOUR });
    const text = made.token.reveal();
    expect(text).toMatch(/^belay_api_[0-9a-f]{16}\.[\w-]{43}$/);
    expect(await tokens.verifyApiToken(`${text}\n`)).toEqual({ id: made.id, name: 'ci', role: 'operator' });
    clock.advance(HOUR);
    const expired = await failureOf(() => tokens.verifyApiToken(text));
    expect([expired.code, expired.retry]).toEqual(['TokenExpired', 'never']);
    expect(expired.fix).toContain('belay token create');
    const lasting = await tokens.createApiToken({ name: 'admin', role: 'admin', validFor: null });
    await tokens.verifyApiToken(lasting.token.reveal());
    await tokens.revoke(lasting.id);
    expect(await codeOf(() => tokens.verifyApiToken(lasting.token.reveal()))).toBe('TokenUnknown');
  });

  test('S8 the store holds no token, and a wrong secret part is refused', async () => {
    const tokens = openTokens(store, clock);
    const text = (await tokens.createApiToken({ name: 'ci', role: 'viewer', validFor: null })).token.reveal();
    const part = text.split('.')[1] as string;
    expect(JSON.stringify(await tokens.list('api'))).not.toContain(part);
    const wrong = `${text.slice(0, -2)}${text.endsWith('AA') ? 'BB' : 'AA'}`;
    for (const bad of [wrong, text.slice(0, -1), '', 'Bearer x', text.replace('_api_', '_join_')]) {
      expect(await codeOf(() => tokens.verifyApiToken(bad))).toBe('TokenUnknown');
    }
    expect(await codeOf(() => tokens.useJoinToken(text, 'a'))).toBe('TokenUnknown');
  });

  test('a join token opens no API, whatever its host is called and however it is spelled', async () => {
    const tokens = openTokens(store, clock);
    const text = (await tokens.createJoinToken({ host: 'admin', validFor: HOUR })).token.reveal();
    for (const bad of [text, text.replace('_join_', '_api_')])
      expect(await codeOf(() => tokens.verifyApiToken(bad))).toBe('TokenUnknown');
    await tokens.useJoinToken(text, 'admin');
  });

  test('a join token lets exactly one caller in, for its host, before it expires', async () => {
    const tokens = openTokens(store, clock);
    const one = (await tokens.createJoinToken({ host: 'node-a', validFor: HOUR })).token.reveal();
    expect(await codeOf(() => tokens.useJoinToken(one, 'node-b'))).toBe('TokenForOtherHost');
    const uses = await Promise.allSettled([1, 2, 3].map(() => tokens.useJoinToken(one, 'node-a')));
    expect(uses.filter((use) => use.status === 'fulfilled')).toHaveLength(1);
    expect(await codeOf(() => tokens.useJoinToken(one, 'node-a'))).toBe('TokenUsed');
    const any = (await tokens.createJoinToken({ host: '*', validFor: HOUR })).token.reveal();
    clock.advance(HOUR);
    expect(await codeOf(() => tokens.useJoinToken(any, 'node-c'))).toBe('TokenExpired');
  });
});

describe('files, passwords and log', () => {
  test('A2.6 a file is written as a whole with its mode, and the old one stays when that fails', async () => {
    const path = join(folder, 'new', 'member.pem');
    await atomicWriteFile(path, 'one', 0o600);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, 'new')).mode & 0o777).toBe(0o700);
    await atomicWriteFile(path, Buffer.from('two'), 0o640);
    expect(readFileSync(path, 'utf8')).toBe('two');
    expect(statSync(path).mode & 0o777).toBe(0o640);
    expect(await codeOf(() => atomicWriteFile(join(path, 'below-a-file'), 'x', 0o600))).toBe(
      'FileNotWritable',
    );
    mkdirSync(join(folder, 'taken'));
    expect(await codeOf(() => atomicWriteFile(join(folder, 'taken'), 'x', 0o600))).toBe('FileNotWritable');
    expect(readdirSync(folder).toSorted()).toEqual(['new', 'taken']);
  });

  test('A2.6 a write that breaks off leaves the old file whole and nothing beside it', async () => {
    const path = join(folder, 'only', 'member.pem');
    await atomicWriteFile(path, 'old', 0o600);
    const broken = new Proxy(new Uint8Array(1), {}) as Uint8Array;
    expect(await codeOf(() => atomicWriteFile(path, broken, 0o600))).toBe('FileNotWritable');
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(readdirSync(join(folder, 'only'))).toEqual(['member.pem']);
  });

  test('S8 a log line has the message, fields and error code, and no secrets', () => {
    const lines: string[] = [];
    const log = makeLog({
      level: 'info',
      destination: { write: (line: string) => void lines.push(line) },
      base: { process: 'server' },
    });
    log.debug('not shown');
    log.info('hello', {
      cluster: 'orders',
      value: secret('canary'),
      nested: { password: 'canary' },
      token: 'canary',
    });
    log.error('failed', { error: new BelayError('StoreFull', 'no space', { fix: 'Free some.' }) });
    expect(lines).toHaveLength(2);
    expect(lines.join('')).not.toContain('canary');
    expect(JSON.parse(lines[0] as string)).toMatchObject({
      msg: 'hello',
      process: 'server',
      cluster: 'orders',
      value: '***',
    });
    expect(JSON.parse(lines[1] as string)).toMatchObject({ error: { code: 'StoreFull', fix: 'Free some.' } });
  });
});
