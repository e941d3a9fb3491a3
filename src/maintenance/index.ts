/**
 * The one maintenance authority, pure part: who may take what out of service now.
 *
 * `new Fleet(spec)` is the topology with its health, `new Desk(fleet, book)` decides over it. `createTask`, `refreshTask`,
 * `completeActions` and `dropTask` are what people and `ydbops` do. For the engine's own steps the question is
 *
 *     admitMember(desk, { id, node: memberKey('default', 'orders-0'), holder, why, priority, mode: 'strong', duration }, now)
 *
 * which gives a `Grant` or a refusal that says who or what stands in the way and when to ask again; `releaseMember(desk, id)`
 * gives it back. Durable, shared by several control planes and asynchronous, the same is `Authority.acquire` and
 * `Authority.release` in the room `authority`.
 */
export {
  type Admission,
  admitMember,
  ENGINE_OWNER,
  Grant,
  holdOf,
  isHold,
  type MemberAsk,
  memberKey,
  releaseMember,
  sameAsk,
} from './admit.ts';
export { type Answer, numberOf, type RequestInput } from './answers.ts';
export { BETTER, type Compat, ORIGINAL } from './compat.ts';
export { Desk, type DeskOptions } from './desk.ts';
export * from './documents.ts';
export { Fleet, type Item, type LockRef } from './fleet.ts';
export * from './fleetSpec.ts';
export { canHandOver, type HandOver } from './handOver.ts';
export * from './limits.ts';
export { entryName } from './locks.ts';
export * from './managed.ts';
export { askByOf } from './patience.ts';
export { forceHelps } from './reasons.ts';
export { itemsOf, resolve } from './resolve.ts';
export * from './tasks.ts';
export * from './topology.ts';
export { topologyStatus } from './topologyConditions.ts';
export * from './types.ts';
