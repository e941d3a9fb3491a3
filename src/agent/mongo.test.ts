import type { AddressInfo } from 'node:net';
import { createServer } from 'node:tls';
import { expect, test } from 'vitest';
import { secret } from '../base/secret.ts';
import { makeTestCa } from '../channel/testing/pki.ts';
import { refused } from './commands/refusals.ts';
import { dropClient, openClient } from './mongo.ts';

test('TLS-08 a member whose certificate is not of our authority is told nothing, one of ours whatever its name is spoken to', async () => {
  const [ours, theirs] = await Promise.all([makeTestCa(), makeTestCa()]);
  const leaf = await theirs.issue('localhost', ['localhost', '127.0.0.1']);
  let told = '';
  const server = createServer({ key: leaf.keyPem, cert: leaf.certificatePem }, (socket) => {
    socket.once('data', (data) => {
      told = data.toString('latin1');
      socket.destroy();
    });
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const failureOf = async (caPem: string): Promise<string> => {
    let client: ReturnType<typeof openClient> | null = null;
    const failure = await new Promise<Error>((resolve) => {
      const login = { user: 'app', db: 'admin', password: secret('p') };
      client = openClient({ port, caPem }, login, { hello: () => {}, broken: resolve });
      client.connect().catch(() => {});
    });
    dropClient(client);
    return failure.message;
  };
  expect(await failureOf(ours.caPem)).toMatch(/certificate|self-signed/i);
  expect(told).toBe('');
  await failureOf(theirs.caPem);
  expect(told).toContain('hello');
  server.close();
});

test('A5.4 credentials, what passes by itself and what does not are told apart by code', () => {
  const of = (code: number): string => refused(code, 'X', 'm').class;
  expect([13, 18].map(of)).toEqual(['credentials', 'credentials']);
  expect([91, 189, 10107, 11600, 13435, 262].map(of)).toEqual(Array(6).fill('transient'));
  expect([59, 103, 2].map(of)).toEqual(Array(3).fill('permanent'));
});
