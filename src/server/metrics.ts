/** Prometheus metrics: what the engine counts, what agents report, and the process itself. */
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Engine } from '../engine/engine.ts';
import type { EngineMetrics } from '../engine/metrics.ts';
import type { Agents, Store } from '../engine/ports.ts';
import { PHASES } from '../model/index.ts';
import { openStreams } from './stream.ts';

export interface Metrics {
  readonly text: () => Promise<string>;
  /** Counts one answered request of the API. */
  readonly counted: (method: string, route: string, status: number) => void;
}

/** A registry whose values are read when somebody asks; nothing is kept twice. */
export function makeMetrics(parts: {
  readonly engine: Pick<Engine, 'metrics' | 'informer'> & {
    readonly leases: Pick<Engine['leases'], 'renewals'>;
  };
  readonly agents: Agents;
  readonly store: Store;
}): Metrics {
  const { engine, agents, store } = parts;
  const registry = new Registry();
  // A finer clock for the lag of the event loop would be most of what an idle control plane does.
  collectDefaultMetrics({ register: registry, prefix: 'belay_', eventLoopMonitoringPrecision: 100 });
  const add = adders(registry);
  engineMetrics(engine.metrics, add);
  add.several('belay_clusters', 'Databases by phase', 'phase', () => phases(engine.informer));
  add.one('belay_store_writes', 'Write transactions since start', () => store.writes);
  add.one('belay_lease_renewals', 'Writes that renewed leases since start', () => engine.leases.renewals);
  add.one('belay_hosts', 'Hosts whose agents were seen', () => agents.hosts().length);
  add.one(
    'belay_hosts_connected',
    'Hosts whose channel is open',
    () => agents.hosts().filter((host) => host.connected).length,
  );
  add.one('belay_api_streams', 'Watches that are open', openStreams);
  const requests = new Counter({
    name: 'belay_api_requests_total',
    help: 'Requests the API answered, by method, route and status',
    labelNames: ['method', 'route', 'status'],
    registers: [registry],
  });
  return {
    text: () => registry.metrics(),
    counted: (method, route, status) => requests.inc({ method, route, status: String(status) }),
  };
}

interface Adders {
  readonly one: (name: string, help: string, read: () => number) => void;
  readonly several: (
    name: string,
    help: string,
    label: string,
    read: () => Iterable<readonly [string, number]>,
  ) => void;
}

function adders(registry: Registry): Adders {
  return {
    one: (name, help, read) => {
      new Gauge({
        name,
        help,
        registers: [registry],
        collect() {
          this.set(read());
        },
      });
    },
    several: (name, help, label, read) => {
      new Gauge({
        name,
        help,
        labelNames: [label],
        registers: [registry],
        collect() {
          this.reset();
          for (const [value, number] of read()) this.set({ [label]: value }, number);
        },
      });
    },
  };
}

/** What the engine counts since its start, under the reasons that status, events and log name too. */
function engineMetrics(metrics: EngineMetrics, add: Adders): void {
  add.one('belay_engine_passes', 'Passes over a cluster', () => metrics.passes);
  add.one('belay_engine_pass_failures', 'Passes that failed', () => metrics.passFailures);
  add.one('belay_engine_pass_millis', 'Time spent in passes', () => metrics.passMillis);
  add.one('belay_engine_pass_writes', 'Writes of passes to the store', () => metrics.passWrites);
  add.one('belay_engine_converged', 'Databases whose last pass found nothing to do', () => metrics.converged);
  add.several('belay_engine_effects', 'Effects by outcome', 'outcome', () => Object.entries(metrics.effects));
  add.several('belay_engine_refusals', 'Refusals of the guard by reason', 'reason', () => metrics.refusals);
  add.several(
    'belay_engine_waits',
    'Passes that ended in a wait or block, by reason',
    'reason',
    () => metrics.waits,
  );
  add.several('belay_engine_steps', 'Effects by kind of step', 'step', () => stepsBy(metrics, 'count'));
  add.several('belay_engine_step_millis', 'Time of effects by kind of step', 'step', () =>
    stepsBy(metrics, 'millis'),
  );
}

const stepsBy = (metrics: EngineMetrics, what: 'count' | 'millis'): [string, number][] =>
  [...metrics.steps].map(([kind, step]) => [kind, step[what]]);

/** Phases nobody is in are 0, so that an alert on them has something to look at. */
function phases(informer: Pick<Engine['informer'], 'all'>): Map<string, number> {
  const counts = new Map<string, number>(PHASES.map((phase) => [phase, 0]));
  for (const { status } of informer.all('MongoDB')) {
    const phase = (status as { readonly phase?: string } | null)?.phase ?? 'Pending';
    counts.set(phase, (counts.get(phase) ?? 0) + 1);
  }
  return counts;
}
