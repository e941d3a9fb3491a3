/** Routers in the model of a plan. */
import type { DatabaseFacts, MemberFacts, RouterFacts } from './facts.ts';
import { isRouter } from './topology.ts';
import type { MemberState, Observed, State } from './types.ts';

/** A database that has just started and knows nothing yet. */
export const UNINITIATED: Extract<DatabaseFacts, { kind: 'reachable' }> = {
  kind: 'reachable',
  binaryVersion: '',
  featureCompatibilityVersion: null,
  initiated: false,
  setName: null,
  replicaSetId: null,
  state: 'STARTUP',
  term: null,
  writablePrimary: false,
  primary: null,
  peers: [],
  config: null,
  initialSyncPercent: null,
  authenticated: null,
  usersExist: false,
};

/** A router that is up finds what its config servers know: as another one tells it, or as the record has it. */
export function startedRouter(
  { state, observed }: { readonly state: State; readonly observed: Observed },
  member: MemberState,
  configVersion: number,
): MemberFacts {
  const router: RouterFacts = toldByAnother(state, observed) ?? {
    configReachable: true,
    shards: state.replicaSets
      .filter((r) => r.registered)
      .map((r) => ({ name: r.name, host: r.name, draining: false })),
    balancer: state.balancer?.confirmed === true ? 'off' : 'full',
    balancing: false,
  };
  return {
    serviceId: member.serviceId ?? member.name,
    configVersion,
    configError: null,
    process: { kind: 'running', pid: 1, since: observed.at, adopted: false },
    database: {
      ...UNINITIATED,
      initiated: null,
      state: null,
      binaryVersion: member.deployedVersion ?? '',
      authenticated: true,
      usersExist: true,
      router,
    },
    certificate: null,
    volume: null,
  };
}

function toldByAnother(state: State, { members }: Observed): RouterFacts | null {
  const routers = new Set(state.members.filter(isRouter).map((m) => m.name));
  const told = members.flatMap(({ name, facts, connected }) =>
    routers.has(name) && connected && facts?.database?.kind === 'reachable'
      ? (facts.database.router ?? [])
      : [],
  );
  return told.find((router) => router.configReachable) ?? null;
}
