/** Small words about markers and operations that several parts of the world share. */
import type { HostOperation } from '../engine/ports.ts';

/** The cluster an operation is about. */
export const clusterOf = (operation: HostOperation): string =>
  'spec' in operation ? operation.spec.owner.clusterUid : operation.clusterUid;
