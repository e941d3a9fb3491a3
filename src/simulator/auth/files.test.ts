import { X509Certificate } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { TestCa } from '../process/certificates.testing.ts';
import { type KeyFileError, readKeyFile } from './keyfile.ts';
import { isMember, subjectOf } from './subject.ts';

const folder = mkdtempSync(join(tmpdir(), 'belay-auth-'));
afterAll(() => rmSync(folder, { recursive: true }));

function keyFile(text: string, mode = 0o600): string {
  const path = join(folder, 'key');
  rmSync(path, { force: true });
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}
const keys = (text: string): string[] => readKeyFile(keyFile(text)).map((key) => key.reveal());

test('a key file is one key, or a list of at most two; blanks do not count', () => {
  expect(keys('abc def\nghi=\n')).toEqual(['abcdefghi=']);
  expect(keys('- firstkey\n- "secondkey"\n')).toEqual(['firstkey', 'secondkey']);
});

test.each([
  ['abcde', 'has length 5, must be between 6 and 1024 chars'],
  ['a'.repeat(1025), 'has length 1025'],
  ['abc-def', 'invalid char in key file'],
  ['- aaaaaa\n- bbbbbb\n- cccccc\n', 'at most 2 keys'],
  ['', 'does not contain any valid keys'],
])('the key file %j is refused', (text, message) => {
  expect(() => keys(text)).toThrow(message);
});

test('S8 a key file others can read is refused, and no refusal shows the key', () => {
  expect(() => readKeyFile(keyFile('abcdefgh', 0o640))).toThrow('are too open');
  expect(() => readKeyFile(join(folder, 'absent'))).toThrow('No such file or directory');
  let refusal: KeyFileError | undefined;
  try {
    readKeyFile(keyFile('canarycanary!'));
  } catch (failure) {
    refusal = failure as KeyFileError;
  }
  expect(refusal?.message).not.toContain('canary');
});

test('subjects are written by RFC 2253: reversed, escaped, in UTF-8', async () => {
  const ca = await TestCa.create();
  const path = join(folder, 'odd.pem');
  await ca.issue(path, 'O=Müller\\, Söhne,OU=a+OU=b,CN=x');
  const pem = readFileSync(path, 'utf8');
  expect(subjectOf(new X509Certificate(pem.slice(pem.indexOf('-----BEGIN CERT'))).raw)).toBe(
    'CN=x,OU=a+OU=b,O=Müller\\, Söhne',
  );
});

test('members can be told by an override or by attributes', () => {
  const own = 'CN=a,OU=old,O=Belay';
  expect(isMember('CN=b,OU=new,O=Belay', { own })).toBe(false);
  expect(isMember('CN=b,OU=new,O=Belay', { own, override: 'CN=z,OU=new,O=Belay' })).toBe(true);
  expect(isMember('CN=b,OU=new,O=Belay', { own, attributes: 'O=Belay' })).toBe(true);
  expect(isMember('CN=b,OU=new,O=Other', { own, attributes: 'O=Belay' })).toBe(false);
  expect(isMember('CN=b', { own: undefined })).toBe(false);
});
