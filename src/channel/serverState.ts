/** What the control plane remembers of one host: plain fields that reports overwrite, so that reading costs nothing. */
import { isDeepStrictEqual } from 'node:util';
import type { Millis } from '../base/units.ts';
import type { HostFacts } from '../clusters/facts.ts';
import type { AgentChange, HostReport, MemberReport } from '../engine/ports.ts';
import { type MemberItem, readHostFacts, readMemberItem } from './facts.ts';
import type { AgentMessage, Hello } from './protocol.ts';
import type { AgentLink } from './serverLink.ts';
import { misfit } from './shape.ts';

/** A hello, checked. */
export interface FullState {
  readonly session: string;
  readonly host: HostFacts;
  readonly members: readonly MemberItem[];
}

/** Checks the facts inside a hello; BelayError `ProtocolError`. */
export function readHello(message: Hello): FullState {
  return {
    session: message.session,
    host: readHostFacts(message.host),
    members: message.members.map(readMemberItem),
  };
}

/**
 * One host. Its report is a live view, always the newest. A member's facts stand as long as the agent gives signs of
 * life, since it reports every change; so `observedAt` of a connected host is its last sign of life.
 */
export class HostEntry {
  readonly #report: { facts: HostFacts; connected: boolean; seenAt: Millis };
  #link: AgentLink | null = null;
  #session = '';
  readonly #members = new Map<string, MemberItem>();

  constructor(facts: HostFacts) {
    this.#report = { facts, connected: false, seenAt: 0 };
  }

  get report(): HostReport {
    return this.#report;
  }

  /** The connection that speaks for the host; null while it is away. */
  get link(): AgentLink | null {
    return this.#link;
  }

  /** The start of the agent's process that this connection belongs to. */
  get session(): string {
    return this.#session;
  }

  alive(now: Millis): void {
    this.#report.seenAt = now;
  }

  detach(): void {
    this.#link = null;
    this.#report.connected = false;
  }

  member(serviceId: string): MemberReport | null {
    const item = this.#members.get(serviceId);
    return item ? { facts: item.facts, observedAt: this.#report.seenAt } : null;
  }

  /**
   * Takes the full state a connection starts with. A host that was away changes with all its members; one that only
   * got a new connection gives what really changed.
   */
  hello(state: FullState, link: AgentLink, now: Millis): readonly AgentChange[] {
    const wasAway = this.#link === null;
    this.#link = link;
    this.#session = state.session;
    Object.assign(this.#report, { facts: state.host, connected: true, seenAt: now });
    const present = new Set(state.members.map((item) => item.facts.serviceId));
    const gone = this.#remove([...this.#members.keys()].filter((id) => !present.has(id)));
    const changed = this.#put(state.members);
    const host: AgentChange = { kind: 'host', host: state.host.name };
    return [host, ...gone, ...(wasAway ? this.memberChanges() : changed)];
  }

  /** Takes a report of changes. */
  change(message: Extract<AgentMessage, { t: 'report' }>): readonly AgentChange[] {
    const changes: AgentChange[] = [];
    if (message.host) {
      const facts = readHostFacts(message.host);
      if (facts.name !== this.#report.facts.name) misfit('host.name', 'the name of the certificate');
      this.#report.facts = facts;
      changes.push({ kind: 'host', host: facts.name });
    }
    changes.push(...this.#remove(message.gone ?? []));
    changes.push(...this.#put((message.members ?? []).map(readMemberItem)));
    return changes;
  }

  /** Every member as changed: their host came or went, and with it what is known of them. */
  memberChanges(): readonly AgentChange[] {
    return [...this.#members.values()].map((item) => this.#changeOf(item));
  }

  #put(items: readonly MemberItem[]): AgentChange[] {
    const changed = items.filter((item) => !isDeepStrictEqual(item, this.#members.get(item.facts.serviceId)));
    for (const item of changed) this.#members.set(item.facts.serviceId, item);
    return changed.map((item) => this.#changeOf(item));
  }

  #remove(serviceIds: readonly string[]): AgentChange[] {
    return serviceIds.flatMap((id) => {
      const item = this.#members.get(id);
      this.#members.delete(id);
      return item ? [this.#changeOf(item)] : [];
    });
  }

  #changeOf(item: MemberItem): AgentChange {
    return {
      kind: 'member',
      host: this.#report.facts.name,
      serviceId: item.facts.serviceId,
      clusterUid: item.clusterUid,
    };
  }
}
