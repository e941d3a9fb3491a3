/** An agent as a process of its own, to be killed. Arguments: data folder, URL, authority's fingerprint, executables. */
import { secret } from '../../base/secret.ts';
import { quiet } from '../../channel/testing/facts.ts';
import { runAgent } from '../agent.ts';

const [dataDir = '', url = '', caFingerprint = '', binDir = ''] = process.argv.slice(2);
await runAgent({
  dataDir,
  name: 'host-a',
  address: 'localhost',
  urls: [url],
  joinToken: secret('belay_join_x'),
  caFingerprint,
  binDir,
  log: quiet,
});
setInterval(() => {}, 1 << 30);
