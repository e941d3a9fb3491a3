/**
 * Where YDB's own maintenance service does something that helps nobody, we do better; a client that depends on the
 * original gets it back, per installation or per gRPC endpoint (C5.5).
 */
export interface Compat {
  /** Nodes of one host do not see each other's temporary locks, so a host may take two disks of one group. */
  readonly hostNodesUnseen: boolean;
  /** An expired permission stays for twice its duration and then takes the pending rest of its task with it. */
  readonly expiryDropsTask: boolean;
  /** An unknown host or disk beside a granted action becomes pending instead of being refused at once. */
  readonly hopelessStaysPending: boolean;
  /** What waits holds less urgent requests back for ever, also when nobody asks for it any more. */
  readonly forgottenKeepsPlace: boolean;
  /** A dry run shows only what would be granted. */
  readonly dryRunHidesPending: boolean;
  /** A task without pending actions does not tell its options. */
  readonly getForgetsOptions: boolean;
  /** Weak may be stricter than strong for State Storage with few rings to select. */
  readonly weakRingsBelowStrong: boolean;
  /** A group of actions is called impossible as soon as two of its own disks meet, whoever else stands in the way. */
  readonly compositeNeverWaits: boolean;
  /** Nodes that nobody has reported fill no place in the limits. */
  readonly unknownNotCounted: boolean;
  /** Drained and cordoned nodes fill no place in the limits. */
  readonly cordonedNotCounted: boolean;
  /** Only a lock tells when to ask again; rings and groups always say five minutes. */
  readonly retryAfterDefaultOnly: boolean;
  /** A lock of no or less than no time is granted, and over at once. */
  readonly emptyDurations: boolean;
  /** An action is completed by its own identity, whatever task it is said to be of. */
  readonly completeIgnoresTask: boolean;
  /** What waits for its own task, by the most actions in flight or as a part of a group, does not say so. */
  readonly capUnexplained: boolean;
}

/** The better behaviour everywhere. */
export const BETTER: Compat = {
  hostNodesUnseen: false,
  expiryDropsTask: false,
  hopelessStaysPending: false,
  forgottenKeepsPlace: false,
  dryRunHidesPending: false,
  getForgetsOptions: false,
  weakRingsBelowStrong: false,
  compositeNeverWaits: false,
  unknownNotCounted: false,
  cordonedNotCounted: false,
  retryAfterDefaultOnly: false,
  emptyDurations: false,
  completeIgnoresTask: false,
  capUnexplained: false,
};

/** As the original has it. */
export const ORIGINAL: Compat = {
  hostNodesUnseen: true,
  expiryDropsTask: true,
  hopelessStaysPending: true,
  forgottenKeepsPlace: true,
  dryRunHidesPending: true,
  getForgetsOptions: true,
  weakRingsBelowStrong: true,
  compositeNeverWaits: true,
  unknownNotCounted: true,
  cordonedNotCounted: true,
  retryAfterDefaultOnly: true,
  emptyDurations: true,
  completeIgnoresTask: true,
  capUnexplained: true,
};

/** How an entry is judged: as its client wants it, else as the installation does. */
export const compatOf = ({ compat }: { readonly compat?: boolean }, installation: Compat): Compat =>
  compat === true ? ORIGINAL : installation;
