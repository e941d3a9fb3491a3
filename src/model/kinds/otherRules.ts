import { equalValues } from '../../base/equal.ts';
import type { Problem } from '../../base/error.ts';
import { isLoopback } from '../network.ts';
import { booleanAt, isMap, type Loose, listAt, mapAt, numberAt, textAt } from '../paths.ts';
import { inFlightProblem } from './maintenance.ts';

type Found = { problems: Problem[]; warnings: Problem[] };

/** Rules about several fields of a MaintenanceTask. */
export function taskRules(document: Loose): Found {
  const found: Found = { problems: [], warnings: [] };
  const groups = listAt(document, 'spec', 'groups');
  const sizes = groups.map((group) => listAt(group, 'actions').length);
  const cap = inFlightProblem(numberAt(document, 'spec', 'maxInFlight') ?? 0, sizes);
  // The original does not look at it for a group.
  if (cap !== null && booleanAt(document, 'spec', 'compat') !== true)
    found.problems.push({ path: 'spec.maxInFlight', message: cap });
  for (const [g, group] of groups.entries()) {
    for (const [a, action] of listAt(group, 'actions').entries()) {
      const scope = mapAt(action, 'scope');
      const path = `spec.groups[${g}].actions[${a}].scope`;
      const named = ['host', 'node', 'disk'].filter((key) => scope[key] !== undefined);
      if (isMap(action) && named.length !== 1) {
        found.problems.push({ path, message: 'must name exactly one of host, node, disk' });
      }
      const type = textAt(action, 'type') ?? 'lock';
      if (type !== 'lock' && named.length === 1 && named[0] !== 'node') {
        found.problems.push({ path, message: `${type} takes a node only` });
      }
    }
  }
  return found;
}

/** Linux gives these to connections unless `net.ipv4.ip_local_port_range` says otherwise. */
const OUTGOING = { first: 32_768, last: 60_999 };

/** Rules about several fields of a Host. */
export function hostRules(document: Loose): Found {
  const found: Found = { problems: [], warnings: [] };
  const address = textAt(document, 'spec', 'address');
  if (address !== undefined && isLoopback(address)) {
    const message = `${address} reaches only this machine, so all members of a set must be on it`;
    found.warnings.push({ path: 'spec.address', message });
  }
  const port = numberAt(document, 'spec', 'firstPort') ?? 0;
  if (port >= OUTGOING.first && port <= OUTGOING.last) {
    const message = `is among the ports that connections to elsewhere usually go out from (${OUTGOING.first} to ${OUTGOING.last}): one of them may hold a member's port whenever it starts`;
    found.warnings.push({ path: 'spec.firstPort', message });
  }
  return found;
}

/** Rules about several fields of a BackupStorage. */
export function backupStorageRules(document: Loose): Found {
  const found: Found = { problems: [], warnings: [] };
  const spec = mapAt(document, 'spec');
  if (spec['insecureSkipTLSVerify'] === true) {
    const message = 'the certificate of the storage is not checked, so backups could go to anybody';
    found.warnings.push({ path: 'spec.insecureSkipTLSVerify', message });
  }
  if (/^http:/i.test(textAt(spec, 'endpointUrl') ?? '')) {
    found.warnings.push({ path: 'spec.endpointUrl', message: 'backups travel unencrypted' });
  }
  return found;
}

/** A spec that may not change once it was created: these kinds are requests, and a changed request is a new one. */
export function fixedSpec(before: Loose, after: Loose): Found {
  if (equalValues(before['spec'], after['spec'])) return { problems: [], warnings: [] };
  const message = 'cannot be changed once created; create another object';
  return { problems: [{ path: 'spec', message }], warnings: [] };
}

/** A user moves neither to another database server nor into another object. */
export function userChanges(before: Loose, after: Loose): Found {
  const ref = (document: Loose): string => {
    const at = mapAt(document, 'spec', 'mongodbResourceRef');
    return `${textAt(at, 'namespace') ?? textAt(document, 'metadata', 'namespace') ?? ''}/${textAt(at, 'name') ?? ''}`;
  };
  if (ref(before) === ref(after)) return { problems: [], warnings: [] };
  const message = 'cannot be changed once created; create another MongoDBUser';
  return { problems: [{ path: 'spec.mongodbResourceRef', message }], warnings: [] };
}
