/** The words of maintenance: what is asked for, what is held, and why something may not be taken now. */
import type { Millis } from '../base/units.ts';
import type { ReasonCode } from './reasons.ts';

export type { ReasonCode } from './reasons.ts';

/** How much unavailability a task may cause (C2). `smart`: strong, else weak for what the task does not hold yet. */
export type Mode = 'strong' | 'weak' | 'force' | 'smart';

/** One component an action locks. Nodes and disks are named by the key of their node (`NodeSpec.key`). */
export type Scope =
  | { readonly kind: 'host'; readonly host: string }
  | { readonly kind: 'node'; readonly node: string }
  | { readonly kind: 'disks'; readonly disks: readonly DiskRef[] };

/** A disk by node and number or by host and path, or one virtual disk of a group. */
export type DiskRef =
  | { readonly kind: 'id'; readonly node: string; readonly disk: number }
  | { readonly kind: 'path'; readonly host: string; readonly path: string }
  | { readonly kind: 'vdisk'; readonly group: number; readonly node: string };

/** What is done to a component. `restart` and `reboot` differ in which nodes of a host count (`service`, down ones). */
export interface Action {
  readonly type: 'lock' | 'drain' | 'cordon';
  readonly scope: Scope;
  /** How long it is needed; null: as long as the request says, by default `DEFAULT_DURATION`. */
  readonly duration: Millis | null;
  /** Only nodes that run this service; null: all nodes of the scope. */
  readonly service?: 'storage' | 'dynnode';
  /** A node of the host that is down anyway does not stand in the way of the rest. */
  readonly reboot?: boolean;
}

/** How final a refusal is, the softest first; the softest one gives the answer of the whole request. */
export const CODES = [
  'NO_SUCH_SERVICE',
  'DISALLOW_TEMP',
  'ERROR_TEMP',
  'DISALLOW',
  'WRONG_REQUEST',
  'ERROR',
  'NO_SUCH_HOST',
  'NO_SUCH_DEVICE',
  'ALLOW_PARTIAL',
  'ALLOW',
] as const;
export type Code = (typeof CODES)[number];

/** The softer of two codes. */
export const softer = (a: Code, b: Code): Code => (CODES.indexOf(a) <= CODES.indexOf(b) ? a : b);

/** Who or what stands in the way, for programs; `message` of the refusal says the same to people. */
export type Blocker =
  | {
      readonly kind: 'lock';
      readonly item: string;
      readonly lock: string;
      readonly task: string;
      readonly owner: string;
      readonly deadline: Millis | null;
    }
  | {
      readonly kind: 'pending';
      readonly item: string;
      readonly task: string;
      readonly owner: string;
      readonly priority: number;
    }
  | { readonly kind: 'announced'; readonly item: string; readonly owner: string; readonly until: Millis }
  /** A member that a task has given back a moment ago. */
  | {
      readonly kind: 'settling';
      readonly item: string;
      readonly task: string;
      readonly owner: string;
      readonly until: Millis;
    }
  | { readonly kind: 'group'; readonly group: number; readonly out: readonly string[] }
  | {
      readonly kind: 'ring';
      readonly ring: number;
      readonly state: string;
      readonly nodes: readonly string[];
      readonly until: Millis | null;
    }
  | { readonly kind: 'replicaSet'; readonly set: string; readonly out: readonly string[] }
  | { readonly kind: 'limit'; readonly of: string; readonly out: readonly string[] }
  | { readonly kind: 'node'; readonly node: string; readonly state: string }
  /** A primary that is to hand over first. */
  | { readonly kind: 'primary'; readonly set: string; readonly node: string };

/** Why an action may not be done now, or ever. */
export interface Refusal {
  readonly code: Code;
  readonly reason: ReasonCode;
  /** One sentence that names what stands in the way. */
  readonly message: string;
  readonly by: readonly Blocker[];
  /** When it becomes possible by all deadlines that are known; null: nobody knows, look again after `DEFAULT_RETRY`. */
  readonly retryAt: Millis | null;
}

/** A granted action: exclusive locks on its components until it is completed or its deadline has passed. */
export interface Permission {
  readonly id: string;
  /** Entry (request or task) it belongs to. */
  readonly entry: string;
  readonly owner: string;
  readonly priority: number;
  readonly action: Action;
  readonly grantedAt: Millis;
  /** After this it counts as completed; null: until it is taken back (drain, cordon). */
  readonly deadline: Millis | null;
  /** How long it was asked for. */
  readonly duration: Millis;
  /** Position of the action in the task as it was created: group and action. */
  readonly at: readonly [group: number, action: number];
  /** Progress of a drain in percent; absent for others, and for a drain that has ended. */
  readonly progress?: number;
}

/** An action that waits. */
export interface Pending {
  readonly action: Action;
  readonly at: readonly [group: number, action: number];
  /** Null: it was not looked at (cap reached, or another action of its group stands in the way). */
  readonly refusal: Refusal | null;
}

/** One request with what it holds and what it still waits for. A maintenance task is one; so is a hold of the engine. */
export interface Entry {
  readonly id: string;
  /** Identity the client gave a task; null for plain requests. */
  readonly uid: string | null;
  readonly owner: string;
  readonly description: string;
  readonly mode: Mode;
  readonly priority: number;
  /** Actions are granted one by one; false: all or none. */
  readonly partial: boolean;
  /** Most actions held at a time; 0: no limit. */
  readonly maxInFlight: number;
  readonly duration: Millis | null;
  /** Tenants' limits are not looked at (internal requests only). */
  readonly ignoreTenants: boolean;
  readonly evict: boolean;
  /** Primaries among what is taken hand over before it is granted, where another member can lead. */
  readonly stepDown?: boolean;
  /** Judged as the original does, quirks included, whatever the installation does (C5.5). */
  readonly compat?: boolean;
  readonly createdAt: Millis;
  readonly refreshedAt: Millis;
  /** What waits keeps its place before less urgent ones until then, unless somebody asks again; see `patience.ts`. */
  readonly askBy?: Millis;
  /** Nobody has asked again in time: what waits holds nobody back any more, until somebody does. */
  readonly stale?: boolean;
  readonly pending: readonly Pending[];
  readonly held: readonly Permission[];
}

/** An outage that nobody asked for: somebody has told of it, or it follows work that has just ended. */
export interface Announcement {
  readonly id: string;
  readonly owner: string;
  /** Task whose work on it has just ended; left out: somebody has told of it. */
  readonly after?: string;
  readonly actions: readonly Action[];
  readonly from: Millis;
}

/** Everything that must survive: entries in order, announcements, marks of hosts being emptied, and the counter of ids. */
export interface Book {
  readonly entries: readonly Entry[];
  readonly announcements: readonly Announcement[];
  readonly evicting: readonly { readonly host: string; readonly entry: string }[];
  /** Number of the next permission, and of the next request. */
  readonly nextPermission: number;
  readonly nextRequest: number;
}

/** Nothing asked for yet. */
export const EMPTY_BOOK: Book = {
  entries: [],
  announcements: [],
  evicting: [],
  nextPermission: 1,
  nextRequest: 1,
};
