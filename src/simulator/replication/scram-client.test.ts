import { expect, test } from 'vitest';
import { secret } from '../../base/secret.ts';
import { keyCredentials, ScramConversation } from '../auth/scram.ts';
import { ScramClient } from './scram-client.ts';

async function logIn(clientKey: string, serverKeys: readonly string[]): Promise<boolean> {
  const credentials = await keyCredentials('SCRAM-SHA-256', serverKeys.map(secret), 5_000);
  const client = new ScramClient(secret(clientKey));
  const server = ScramConversation.start('SCRAM-SHA-256', client.first(), credentials)!;
  const final = server.finish(await client.proof(server.firstReply));
  return final !== undefined && client.verify(final);
}

test('S12 a member logs in with any key the other accepts, and proves that the other has it too', async () => {
  expect(await logIn('current', ['current'])).toBe(true);
  expect(await logIn('old', ['new', 'old'])).toBe(true);
  expect(await logIn('other', ['new', 'old'])).toBe(false);
});

test('a server that only pretends to have the key is found out', async () => {
  const client = new ScramClient(secret('key'));
  await expect(client.proof('r=somethingelse,s=c2FsdA==,i=5000')).rejects.toThrow(/unexpected SCRAM message/);
  const credentials = await keyCredentials('SCRAM-SHA-256', [secret('key')], 5_000);
  const server = ScramConversation.start('SCRAM-SHA-256', client.first(), credentials)!;
  await client.proof(server.firstReply);
  expect(client.verify('v=AAAA')).toBe(false);
});
