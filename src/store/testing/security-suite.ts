/** Conformance: sealed rows, tokens, settings. */
import { expect, test } from 'vitest';
import { type Bench, codeOf, token } from './bench.ts';

// ── secrets, tokens, settings ──────────────────────────────────────────────────────────────────────────────────────

export function securityTests(at: Bench): void {
  test('a sealed row is put on its version, read, listed and removed by prefix', async () => {
    const bytes = new Uint8Array([0, 1, 255]);
    expect(await at.store.putSealed('a/x', bytes, 0)).toBe(1);
    expect(await codeOf(at.store.putSealed('a/x', bytes, 0))).toBe('Conflict');
    expect(await at.store.putSealed('a/x', new Uint8Array([7]), 1)).toBe(2);
    expect(await at.store.putSealed('a/x', bytes, null)).toBe(3);
    const read = await at.store.getSealed('a/x');
    expect([...(read?.sealed ?? [])]).toEqual([0, 1, 255]);
    expect(read).toMatchObject({ name: 'a/x', version: 3 });
    for (const name of ['a/b', 'ab', 'a/', 'b/x', 'a/ü']) await at.store.putSealed(name, bytes, null);
    expect((await at.store.listSealed('a/')).map((row) => row.name)).toEqual(['a/', 'a/b', 'a/x', 'a/ü']);
    expect(await at.store.deleteSealed('a/')).toBe(4);
    expect((await at.store.listSealed('')).map((row) => row.name)).toEqual(['ab', 'b/x']);
    expect(await at.store.getSealed('a/x')).toBeNull();
  });

  test('marks of sealed rows differ after every write, also after a removal', async () => {
    const bytes = (last: number) => new Uint8Array([...Array.from({ length: 12 }, () => 1), last, 2, 3]);
    for (const name of ['a/x', 'a/y', 'b']) await at.store.putSealed(name, bytes(1), 0);
    const before = await at.store.sealedMarks('a/');
    expect([...before.keys()]).toEqual(['a/x', 'a/y']);
    expect(await at.store.sealedMarks('a/')).toEqual(before);
    await at.store.putSealed('a/x', bytes(1), null);
    await at.store.deleteSealed('a/y');
    await at.store.putSealed('a/y', bytes(9), 0);
    const after = await at.store.sealedMarks('a/');
    expect(after.get('a/x')).not.toBe(before.get('a/x'));
    expect(after.get('a/y')).not.toBe(before.get('a/y'));
    expect((await at.store.sealedMarks('')).size).toBe(3);
  });

  test('all sealed rows are replaced, or none', async () => {
    for (const name of ['a', 'b']) await at.store.putSealed(name, new Uint8Array([1]), 0);
    const rows = await at.store.listSealed('');
    const next = rows.map((row) => ({ ...row, sealed: new Uint8Array([2]) }));
    await at.store.replaceSealed(next);
    expect((await at.store.listSealed('')).map((row) => [row.version, row.sealed[0]])).toEqual([
      [2, 2],
      [2, 2],
    ]);
    await at.store.putSealed('b', new Uint8Array([9]), null);
    const stale = next.map((row) => ({ ...row, version: 2, sealed: new Uint8Array([3]) }));
    expect(await codeOf(at.store.replaceSealed(stale))).toBe('Conflict');
    expect((await at.store.listSealed('')).map((row) => row.sealed[0])).toEqual([2, 9]);
  });

  test('a token reads back and is used by exactly one caller, before it expires', async () => {
    const row = token('t1', { expiresAt: 5_000 });
    await at.store.putToken(row);
    await at.store.putToken(token('t2', { createdAt: 500 }));
    await at.store.putToken(token('t3', { kind: 'api', role: 'admin' }));
    expect(await codeOf(at.store.putToken(row))).toBe('AlreadyExists');
    expect(await at.store.getToken('t1')).toEqual(row);
    expect((await at.store.listTokens('join')).map((item) => item.id)).toEqual(['t2', 't1']);
    expect(await at.store.useToken('t1', 5_000)).toBe(false);
    const uses = await Promise.all(Array.from({ length: 8 }, () => at.store.useToken('t1', 4_999)));
    expect(uses.filter(Boolean)).toHaveLength(1);
    expect((await at.store.getToken('t1'))?.usedAt).toBe(4_999);
    expect(await at.store.useToken('nobody', 1)).toBe(false);
    await at.store.deleteToken('t1');
    expect(await at.store.getToken('t1')).toBeNull();
  });

  test('the first writer of a setting wins', async () => {
    expect(await at.store.getSetting('id')).toBeNull();
    expect(await at.store.initSetting('id', 'one')).toBe('one');
    expect(await at.store.initSetting('id', 'two')).toBe('one');
    expect(await at.store.getSetting('id')).toBe('one');
  });
}
