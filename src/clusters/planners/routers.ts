import { isHealthy, type MemberView } from '../interpret.ts';

/** A router that answers and reaches the config servers, always the same one while it does; null: none does. */
export function workingRouter(all: readonly MemberView[]): MemberView | null {
  return (
    all.find((v) => v.member.role === 'router' && v.member.stage !== 'removing' && isHealthy(v, all)) ?? null
  );
}
