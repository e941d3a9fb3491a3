/** What is to be known of a Topology document at a moment (A7.4, C6.3, C5.3): computed when somebody looks, since health gets old by itself. */
import { formatCount, formatMoment, type Millis } from '../base/units.ts';
import type { Condition, Topology } from '../model/index.ts';
import { namesText } from './rules/look.ts';
import { oldHealth, topologyFleet } from './topology.ts';

/** A document with its spec; the status as the store has it. */
interface Document {
  readonly name: string;
  readonly generation: number;
  readonly createdAt: string;
  readonly spec: Topology['spec'];
  readonly status: Topology['status'] | null;
}
type Draft = Omit<Condition, 'observedGeneration'>;

/** The status as it is shown: with phase, conditions and, where health is too old, how much of it. */
export function topologyStatus(document: Document, now: Millis): NonNullable<Topology['status']> {
  const { generation, status } = document;
  const stale = staleness(document, now);
  const ready = readiness(document, now, stale);
  const conditions = [accepted(document), reported(document), stale, ready];
  const told = stale.status === 'True' ? stale : ready.status === 'False' ? ready : reported(document);
  return {
    warnings: [],
    ...status,
    observedGeneration: generation,
    phase: phaseOf(ready),
    message: told.message,
    conditions: conditions.map((draft) => ({ ...draft, observedGeneration: generation })),
  };
}

function phaseOf({ status, reason }: Draft): 'Ready' | 'Pending' | 'Degraded' {
  if (status === 'True') return 'Ready';
  return reason === 'NoNodes' ? 'Pending' : 'Degraded';
}

const accepted = ({ spec, createdAt }: Document): Draft => ({
  type: 'Accepted',
  status: 'True',
  reason: 'Valid',
  message: `${formatCount(spec.nodes.length, 'node')}, ${formatCount(spec.storageGroups.length, 'storage group')}`,
  lastTransitionTime: createdAt,
});

function reported({ spec, status, createdAt }: Document): Draft {
  const type = 'HealthReported';
  const health = status?.health;
  if (health?.observedAt === undefined) {
    const message = 'no health was ever pushed; the states in the document count';
    return { type, status: 'False', reason: 'NeverPushed', message, lastTransitionTime: createdAt };
  }
  const told = health.nodes.filter((n) => n.state !== undefined).length;
  return {
    type,
    status: 'True',
    reason: 'Pushed',
    message: `last pushed at ${formatMoment(Date.parse(health.observedAt))}; the state of ${told} of ${formatCount(spec.nodes.length, 'node')} was told`,
    lastTransitionTime: health.nodesSince ?? health.observedAt,
  };
}

/** C5.3: what was told too long ago, or by no push although others tell, is unknown and counts as down. */
function staleness({ name, spec, status, createdAt }: Document, now: Millis): Draft {
  const type = 'Stale';
  const old = oldHealth(name, spec, status, now);
  if (old === null) {
    const lastTransitionTime = status?.health?.observedAt ?? createdAt;
    const message = 'nothing that was pushed is too old to be believed';
    return { type, status: 'False', reason: 'UpToDate', message, lastTransitionTime };
  }
  const disks = old.disks === 0 ? [] : [formatCount(old.disks, 'disk')];
  const who = [...(old.nodes.length === 0 ? [] : [namesText(old.nodes)]), ...disks].join(' and ');
  return {
    type,
    status: 'True',
    reason: 'HealthTooOld',
    message: `${who} not told of within ${spec.healthMaxAge} since ${formatMoment(old.since)}: counts as down until health is pushed again`,
    lastTransitionTime: new Date(old.since).toISOString(),
  };
}

/** C5.3: whether all that is told is well; the first reason that fits, the message has all of it. */
function readiness({ name, spec, status, createdAt }: Document, now: Millis, stale: Draft): Draft {
  const { nodes, groups = [] } = topologyFleet(name, spec, status, now);
  const named = (state: string): readonly string[] =>
    nodes.filter((n) => n.state === state).map((n) => n.name);
  const [down, unknown] = [named('down'), named('unknown')];
  const disks = nodes.flatMap((n) => n.disks).filter(({ ok }) => !ok).length;
  const vdisks = groups.flatMap((g) => g.vdisks).filter(({ ok }) => !ok).length;
  const faulty = [
    ...(disks === 0 ? [] : [formatCount(disks, 'disk')]),
    ...(vdisks === 0 ? [] : [formatCount(vdisks, 'virtual disk')]),
  ];
  const parts = [
    ['NodesDown', 'down', down],
    ['NodesUnknown', 'not known, which counts as down', unknown],
    ['DisksFaulty', 'not well', faulty],
  ] as const;
  const wrong = parts.filter(([, , names]) => names.length > 0);
  const type = 'Ready';
  if (nodes.length === 0) {
    const message = 'it has no nodes: nothing of it can be locked or protected until spec.nodes lists them';
    return { type, status: 'False', reason: 'NoNodes', message, lastTransitionTime: createdAt };
  }
  const lastTransitionTime =
    stale.status === 'True' ? stale.lastTransitionTime : (status?.health?.observedAt ?? createdAt);
  const [first] = wrong;
  if (first === undefined) {
    const message = `${formatCount(nodes.length, 'node')} up, all disks well`;
    return { type, status: 'True', reason: 'AllUp', message, lastTransitionTime };
  }
  const message = wrong.map(([, what, names]) => `${what}: ${namesText(names)}`).join('; ');
  return { type, status: 'False', reason: first[0], message, lastTransitionTime };
}
