/** Small words about markers and operations that several parts of the world share. */
import type { HostOperation } from '../engine/ports.ts';

/** The cluster an operation is about. */
export const clusterOf = (operation: HostOperation): string =>
  'spec' in operation ? operation.spec.owner.clusterUid : operation.clusterUid;

/** The member an operation is about, as far as its words tell. */
export const memberOf = (operation: HostOperation): string => {
  if ('spec' in operation) return operation.spec.owner.member;
  return operation.kind === 'deleteVolume' ? operation.member : operation.serviceId;
};
