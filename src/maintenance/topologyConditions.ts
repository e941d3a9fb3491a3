/** What is to be known of a Topology document at a moment (A7.4, C6.3, C5.3): computed when somebody looks, since health gets old by itself. */
import type { Millis } from '../base/units.ts';
import type { Condition, Topology } from '../model/index.ts';
import { namesText, timeText } from './rules/look.ts';
import { oldHealth } from './topology.ts';

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
  const conditions = [accepted(document), reported(document), stale];
  return {
    warnings: [],
    ...status,
    observedGeneration: generation,
    phase: stale.status === 'True' ? 'Degraded' : 'Ready',
    message: stale.status === 'True' ? stale.message : reported(document).message,
    conditions: conditions.map((draft) => ({ ...draft, observedGeneration: generation })),
  };
}

const accepted = ({ spec, createdAt }: Document): Draft => ({
  type: 'Accepted',
  status: 'True',
  reason: 'Valid',
  message: `${counted(spec.nodes.length, 'node')}, ${counted(spec.storageGroups.length, 'storage group')}`,
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
    message: `last pushed at ${timeText(Date.parse(health.observedAt))}; the state of ${told} of ${counted(spec.nodes.length, 'node')} was told`,
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
  const disks = old.disks === 0 ? [] : [counted(old.disks, 'disk')];
  const who = [...(old.nodes.length === 0 ? [] : [namesText(old.nodes)]), ...disks].join(' and ');
  return {
    type,
    status: 'True',
    reason: 'HealthTooOld',
    message: `${who} not told of within ${spec.healthMaxAge} since ${timeText(old.since)}: counts as down until health is pushed again`,
    lastTransitionTime: new Date(old.since).toISOString(),
  };
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;
