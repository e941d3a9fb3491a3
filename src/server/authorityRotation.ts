/**
 * Replaces the installation's certificate authority, phase by phase (S12, TLS-02). A person begins it and says when clients
 * have the new bundle; everything else follows by itself: members through their clusters' planner, agents over their
 * channel, listeners of control planes, and the end when nobody needs the old one any more. The phase is in the store, so
 * that every control plane works on it and none is needed for it.
 */
import { asBelayError, BelayError } from '../base/error.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type { AgentServer } from '../channel/index.ts';
import {
  type AuthorityHolder,
  type AuthorityPhase,
  holdersOf,
  lackingIn,
  type State,
} from '../clusters/index.ts';
import type { Clock, Log, Store } from '../engine/ports.ts';
import type { ReplaceableAuthority } from '../security/ca.ts';

/** How often the row is read and agents are looked at. */
const LOOK: Millis = 5 * SECOND;
/**
 * A phase lasts at least so long: every control plane has read it by then, and what was begun before it has ended (an effect
 * may take thirty seconds).
 */
export const AUTHORITY_SETTLES: Millis = 40 * SECOND;

export interface AuthorityStatus {
  readonly phase: AuthorityPhase;
  /** Who still lacks what this phase gives, at most `LISTED` of them. */
  readonly waitsFor: readonly string[];
  readonly waiting: number;
  /** The next step may be taken: by a person in `introduced`, by itself in `switched`. */
  readonly ready: boolean;
  readonly notAfter: string;
  /** `sha256:` of the authority that issues: what new agents pin. */
  readonly fingerprint: string;
}

/** Names in a status; a thousand of them help nobody. */
const LISTED = 20;

export interface AuthorityRotationDeps {
  readonly ca: ReplaceableAuthority;
  readonly store: Store;
  readonly agents: Pick<AgentServer, 'host' | 'hosts' | 'renewIdentity'>;
  readonly clock: Clock;
  readonly log: Log;
  /** Another bundle or issuer: every cluster has to be looked at. */
  readonly changed: () => void;
}

/** See the head of this file. */
export class AuthorityRotation {
  readonly #deps: AuthorityRotationDeps;
  readonly #asked = new Set<string>();
  #phase: AuthorityPhase;
  #since: Millis;
  #cancel: () => void = () => {};
  #closed = false;
  readonly #leave: () => void;

  constructor(deps: AuthorityRotationDeps) {
    this.#deps = deps;
    this.#phase = deps.ca.phase;
    this.#since = deps.clock.now();
    this.#leave = deps.ca.onChange(() => this.#changed());
    this.#later();
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
    this.#leave();
  }

  #changed(): void {
    const { ca, clock, log, changed } = this.#deps;
    if (ca.phase !== this.#phase) {
      this.#phase = ca.phase;
      this.#since = clock.now();
      log.info('certificate authority', { phase: ca.phase });
    }
    changed();
  }

  #later(): void {
    const { clock } = this.#deps;
    if (this.#closed) return;
    this.#cancel = clock.at(clock.now() + LOOK, () => {
      void this.look()
        .catch((failure) => {
          this.#deps.log.warn('certificate authority', { error: asBelayError(failure).message });
        })
        .finally(() => this.#later());
    });
  }

  /** One look: what the store says, agents that lag behind, and whether the old authority can go. */
  async look(): Promise<void> {
    const { ca } = this.#deps;
    await ca.refresh();
    this.#askAgents();
    if (ca.phase !== 'switched' || !this.#settled()) return;
    if ((await this.#lacking()).length === 0) await ca.retire();
  }

  #settled(): boolean {
    return this.#deps.clock.now() - this.#since >= AUTHORITY_SETTLES;
  }

  /** Agents that present or trust another one than they should get theirs anew, each once at a time. */
  #askAgents(): void {
    const { ca, agents, log } = this.#deps;
    for (const { facts, connected } of agents.hosts()) {
      const { name, identity } = facts;
      if (!connected || identity === undefined || this.#asked.has(name)) continue;
      if (lackingIn(ca.authority, [{ name, ...identity }]).length === 0) continue;
      this.#asked.add(name);
      agents
        .renewIdentity(name)
        .catch((failure) => {
          log.warn('agent keeps its certificate', { host: name, error: asBelayError(failure).message });
        })
        .finally(() => this.#asked.delete(name));
    }
  }

  async #lacking(): Promise<readonly string[]> {
    return lackingIn(this.#deps.ca.authority, [...(await this.#members()), ...(await this.#hosts())]);
  }

  async #members(): Promise<readonly AuthorityHolder[]> {
    const { store } = this.#deps;
    const holders: AuthorityHolder[] = [];
    for await (const { metadata } of allOf(store, 'MongoDB')) {
      const state = (await store.loadState(metadata.uid))?.value as State | undefined;
      if (state !== undefined) holders.push(...holdersOf(`${metadata.namespace}/`, state));
    }
    return holders;
  }

  /** A host that is not connected is waited for: locked out it could not even be told. Deleting it ends the wait. */
  async #hosts(): Promise<readonly AuthorityHolder[]> {
    const { store, agents } = this.#deps;
    const holders: AuthorityHolder[] = [];
    for await (const { metadata } of allOf(store, 'Host')) {
      const report = agents.host(metadata.name);
      const identity = report?.connected ? report.facts.identity : undefined;
      const why = !report?.connected
        ? ' (not connected)'
        : identity === undefined
          ? ' (its agent is too old)'
          : '';
      const name = `host ${metadata.name}${why}`;
      holders.push({ name, trust: identity?.trust ?? null, issuer: identity?.issuer ?? null });
    }
    return holders;
  }

  // ── what people ask for ────────────────────────────────────────────────────────────────────────────────────────

  async status(): Promise<AuthorityStatus> {
    const { ca } = this.#deps;
    await ca.refresh();
    const lacking = await this.#lacking();
    const { notAfter, issuer } = ca.authority;
    return {
      phase: ca.phase,
      waitsFor: lacking.slice(0, LISTED),
      waiting: lacking.length,
      ready: lacking.length === 0 && (ca.phase === 'stable' || this.#settled()),
      notAfter: new Date(notAfter).toISOString(),
      fingerprint: `sha256:${issuer}`,
    };
  }

  /** Begins; a replacement that is under way goes on. `NotReady` (later) while the one before has not reached everybody. */
  async introduce(): Promise<AuthorityStatus> {
    const { ca } = this.#deps;
    await ca.refresh();
    if (ca.phase === 'stable') {
      const lacking = await this.#lacking();
      if (lacking.length > 0) throw notReady('the last replacement has not reached', lacking);
      await ca.introduce();
      await this.look();
    }
    return this.status();
  }

  /** The new one issues from now on; clients must have the bundle. `NotReady` (later), `Refused` (never): none was begun. */
  async switchOver(): Promise<AuthorityStatus> {
    const { ca } = this.#deps;
    await ca.refresh();
    if (ca.phase === 'stable') {
      throw new BelayError('Refused', 'no replacement of the certificate authority is under way', {
        retry: 'never',
        fix: 'begin it: belay rotate ca',
      });
    }
    if (ca.phase === 'introduced') {
      const lacking = await this.#lacking();
      if (lacking.length > 0) throw notReady('the new authority is not trusted yet by', lacking);
      if (!this.#settled())
        throw notReady('the new authority has just become trusted; a moment is left to', []);
      await ca.switchOver();
      await this.look();
    }
    return this.status();
  }
}

function notReady(what: string, who: readonly string[]): BelayError {
  const names = who.length === 0 ? 'all control planes' : who.slice(0, 5).join(', ');
  const more = who.length > 5 ? ` and ${who.length - 5} more` : '';
  return new BelayError('NotReady', `${what} ${names}${more}`, {
    retry: 'later',
    fix: 'belay rotate ca waits for them; a host that never comes back is deleted with belay delete host NAME',
  });
}

async function* allOf(store: Store, kind: string) {
  let next: string | null = null;
  do {
    const query: { kind: string; continue?: string } = next === null ? { kind } : { kind, continue: next };
    const page: Awaited<ReturnType<Store['list']>> = await store.list(query);
    yield* page.items;
    next = page.continue;
  } while (next !== null);
}
