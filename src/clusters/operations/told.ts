/** What a cluster's own status says of operations, so that their beginnings and ends are events of it (A7.5, A13.1). */
import type { MongoDBStatus } from '../../model/kinds/mongodbStatus.ts';
import type { EndedOperation, Observed, OperationRequest, RunningOperation, State } from '../types.ts';

type Told = NonNullable<MongoDBStatus['operations']>[number];

/**
 * The one that runs, and those that ended and whose documents did not say so at the last look. One that ended is in at least one
 * status, since its document is told in the same write.
 */
export function operationsTold(
  { operation, ended }: State,
  { requests }: Observed,
  before: MongoDBStatus | null,
): Pick<MongoDBStatus, 'operation' | 'operations'> {
  const operations = [
    ...ended.flatMap((over) => endedTold(over, requests, before) ?? []),
    ...(operation === null ? [] : [runningTold(operation, requests)]),
  ];
  if (operations.length === 0) return {};
  return { operations, ...(operation === null ? {} : { operation: operation.name }) };
}

function runningTold({ uid, name, type }: RunningOperation, requests: readonly OperationRequest[]): Told {
  return { uid, name, type, state: 'Running', ...askedBy(requests.find((r) => r.uid === uid)) };
}

/** Null: its document is gone, and nobody knows what it was. */
function endedTold(
  { uid, state, message }: EndedOperation,
  requests: readonly OperationRequest[],
  before: MongoDBStatus | null,
): Told | null {
  const how = { state, ...(message === '' ? {} : { message }) };
  const request = requests.find((r) => r.uid === uid);
  if (request !== undefined)
    return { uid, name: request.name, type: request.spec.type, ...how, ...askedBy(request) };
  const known = before?.operations?.find((o) => o.uid === uid);
  return known === undefined ? null : { ...known, ...how };
}

const askedBy = (request: OperationRequest | undefined): Pick<Told, 'requestedBy'> =>
  request?.requestedBy === undefined ? {} : { requestedBy: request.requestedBy };
