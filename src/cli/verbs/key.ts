import path from 'node:path';
import { systemClock } from '../../server/clock.ts';
import { rotateMasterKeyOf } from '../../server/masterKey.ts';

/** `belay key rotate`: all secrets under a new master key in one transaction; the old key file is kept beside it. */
export async function rotateKey(
  options: { readonly data: string; readonly store?: string; readonly masterKeyFile?: string },
  out: (text: string) => void,
): Promise<void> {
  const done = await rotateMasterKeyOf({
    dataDir: path.resolve(options.data),
    ...(options.store === undefined ? {} : { storeUrl: options.store }),
    ...(options.masterKeyFile === undefined ? {} : { keyFile: path.resolve(options.masterKeyFile) }),
    clock: systemClock,
  });
  out(
    `sealed ${done.rows} secrets anew; the new key is in ${done.keyFile}, the old one in ${done.oldKeyFile}`,
  );
  out('several control planes on one store: give all of them the new key before they are started again');
}
