/** Prometheus metrics: what the engine counts, what agents report, and the process itself. */
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { EngineMetrics } from '../engine/metrics.ts';
import type { Agents, Store } from '../engine/ports.ts';

/** A registry whose values are read when somebody asks; nothing is kept twice. */
export function makeMetrics(parts: {
  readonly engine: EngineMetrics;
  readonly agents: Agents;
  readonly store: Store;
}): { text: () => Promise<string> } {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'belay_' });
  const gauge = (name: string, help: string, read: () => number): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read());
      },
    });
  };
  for (const key of Object.keys(parts.engine) as (keyof EngineMetrics)[]) {
    if (typeof parts.engine[key] !== 'number') continue;
    gauge(
      `belay_engine_${snake(String(key))}`,
      `Engine: ${snake(String(key)).replaceAll('_', ' ')} since start`,
      () => Number(parts.engine[key]),
    );
  }
  gauge('belay_store_writes', 'Write transactions since start', () => parts.store.writes);
  gauge('belay_hosts', 'Hosts whose agents were seen', () => parts.agents.hosts().length);
  gauge(
    'belay_hosts_connected',
    'Hosts whose channel is open',
    () => parts.agents.hosts().filter((h) => h.connected).length,
  );
  return { text: () => registry.metrics() };
}

const snake = (name: string): string => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
