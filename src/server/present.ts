/** Objects on the wire: Kubernetes' shape, with nothing in it that is null. */

import type { Millis } from '../base/units.ts';
import type { Holder } from '../engine/gate.ts';
import type { HostReport, StoredEvent, StoredObject } from '../engine/ports.ts';
import { topologyStatus } from '../maintenance/index.ts';
import { API_VERSION, type Topology } from '../model/index.ts';

type Json = Readonly<Record<string, unknown>>;

/** An object as the API gives it. */
export function presentObject(object: StoredObject): Json {
  const { deletionTimestamp, labels, annotations, finalizers, ...rest } = object.metadata;
  // Of an object that was only tried out, identity and time are empty.
  const known = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== ''));
  return {
    apiVersion: API_VERSION,
    kind: object.kind,
    metadata: {
      ...known,
      ...(Object.keys(labels).length > 0 ? { labels } : {}),
      ...(Object.keys(annotations).length > 0 ? { annotations } : {}),
      ...(finalizers.length > 0 ? { finalizers } : {}),
      ...(deletionTimestamp === null ? {} : { deletionTimestamp }),
    },
    spec: object.spec,
    ...(object.status === null ? {} : { status: object.status }),
  };
}

/** A list of one kind. */
export function presentList(
  kind: string,
  items: readonly Json[],
  resourceVersion: string,
  next: string | null,
): Json {
  return {
    apiVersion: API_VERSION,
    kind: `${kind}List`,
    metadata: { resourceVersion, ...(next === null ? {} : { continue: next }) },
    items,
  };
}

/** An event as a read-only object; its resourceVersion is its time, from which a watch of events goes on. */
export function presentEvent(event: StoredEvent): Json {
  return {
    apiVersion: API_VERSION,
    kind: 'Event',
    metadata: {
      namespace: event.namespace,
      name: event.id,
      uid: event.id,
      generation: 1,
      resourceVersion: String(event.at),
      creationTimestamp: new Date(event.firstAt).toISOString(),
    },
    spec: {
      regarding: event.regarding,
      type: event.type,
      reason: event.reason,
      message: event.message,
      count: event.count,
      firstTimestamp: new Date(event.firstAt).toISOString(),
      lastTimestamp: new Date(event.at).toISOString(),
    },
  };
}

/** A host with what its agent says now; the stored object holds only what people asked for. */
export function presentHost(
  object: StoredObject,
  report: HostReport | null,
  members: readonly string[],
  held: Holder | null,
): Json {
  const base = presentObject(object);
  const until = held?.until == null ? {} : { until: new Date(held.until).toISOString() };
  const maintenance = held === null ? {} : { maintenance: { task: held.task, owner: held.owner, ...until } };
  if (report === null)
    return {
      ...base,
      status: {
        phase: 'Pending',
        connected: false,
        members,
        message: 'its agent has not connected since this control plane started',
        ...maintenance,
      },
    };
  const { facts } = report;
  return {
    ...base,
    status: {
      phase: report.connected ? 'Ready' : 'Degraded',
      address: facts.address,
      connected: report.connected,
      lastSeen: new Date(report.seenAt).toISOString(),
      agentVersion: facts.agentVersion,
      os: facts.os,
      cpus: facts.cpus,
      memoryBytes: facts.memoryBytes,
      diskTotalBytes: facts.diskTotalBytes,
      diskFreeBytes: facts.diskFreeBytes,
      ...(facts.fingerprint === null ? {} : { fingerprint: facts.fingerprint }),
      executables: facts.executables,
      members,
      ...maintenance,
    },
  };
}

/** A topology with its conditions at this moment: what was pushed gets old without anybody writing it. */
export function presentTopology(object: StoredObject, now: Millis): Json {
  const { name, generation, creationTimestamp: createdAt } = object.metadata;
  const spec = object.spec as Topology['spec'];
  const status = object.status as Topology['status'] | null;
  return {
    ...presentObject(object),
    status: topologyStatus({ name, generation, createdAt, spec, status }, now),
  };
}
