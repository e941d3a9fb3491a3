import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { serialize } from 'bson';
import { expect, test, vi } from 'vitest';
import { PeerConnection } from './peer-connection.ts';

const PIECE = 4096;

/** A reply on the wire. */
function message(reply: object): Buffer {
  const body = serialize(reply);
  const head = Buffer.alloc(21);
  head.writeInt32LE(head.length + body.length, 0);
  head.writeInt32LE(2013, 12);
  return Buffer.concat([head, body]);
}

test('a long reply in many pieces is put together once', async () => {
  const long = message({ ok: 1, text: 'x'.repeat(2_000_000) });
  const answer = (socket: Socket, at = 0): void => {
    if (at >= long.length) return;
    socket.write(long.subarray(at, at + PIECE), () => setImmediate(answer, socket, at + PIECE));
  };
  const server = createServer((socket) => socket.on('data', () => answer(socket)));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const peer = await PeerConnection.open({ host, tls: null, login: { kind: 'none' }, timeout: 30_000 });
  const joined = vi.spyOn(Buffer, 'concat');
  const first = await peer.call('admin', { ping: 1 }, 30_000);
  const second = await peer.call('admin', { ping: 1 }, 30_000);
  expect([first['text'].length, second['text'].length]).toEqual([2_000_000, 2_000_000]);
  // Of each reply the head and the whole, besides the two requests.
  expect(joined.mock.calls.length).toBeLessThanOrEqual(8);
  joined.mockRestore();
  peer.close();
  server.close();
});
