/**
 * The maintenance authority at run time. The engine asks `Authority.acquire` before it takes a member down and calls
 * `Authority.release` afterwards; people's tasks come in by `create`, `refresh`, `complete` and `drop`.
 */
export { Authority, type AuthorityOptions } from './authority.ts';
export { TASK_KIND } from './ledger.ts';
export type { FleetSource } from './ports.ts';
export { FLEET_KINDS, InformerFleet, partName } from './source.ts';
export type { HostView, NodeView } from './views.ts';
